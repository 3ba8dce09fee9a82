# Which of some names belong to files that a process has open, or mapped into its memory.  Behind SAFE.
#
# The last part of the path counts, whichever directory it is in: a process in a container knows the same file by another
# path. So a file counts as used too often rather than too seldom.
names_in_use() { # names, one a line: prints those that are in use; fails where not every process could be inspected: sets why
    why='' owner=''
    [ "$(id -u)" = 0 ] || { why='only root can see which files all processes use' owner=root; return 1; }
    if [ "$(readlink /proc/self/ns/pid)" != 'pid:[4026531836]' ] &&
        [ "$(readlink /proc/self/ns/ipc)" = 'ipc:[4026531839]' ]; then
        why='processes outside of this container may use it, which cannot be seen from here'
        return 1
    fi
    in_use_me=$(readlink "/proc/$$/exe")
    in_use_me=${in_use_me##*/} in_use_end=$(safe_random)
    in_use_found=$(
        exec 9</proc/sys/kernel/ostype # what must be seen where anything is
        {
            printf '%s\n' "$1" "$in_use_end"
            printf '%s\n' /proc/[0-9]*/fd | xargs ls -l 2>&1
            # of a first thread that has ended, the others keep what is open
            printf '%s\n' /proc/[0-9]*/stat | xargs grep -l -s -e ') Z ' | sed 's|/stat$|/task|' | while IFS= read -r in_use_dir; do
                printf '%s\n' "$in_use_dir"/[0-9]*/fd | xargs ls -l 2>/dev/null
                printf '%s\n' "$in_use_dir"/[0-9]*/maps | xargs grep -h -s / 2>/dev/null
            done
            printf '%s\n' /proc/[0-9]*/maps | xargs grep -h / 2>&1
            printf '%s\n' "$in_use_end"
        } | awk -v me="$in_use_me" -v end="$in_use_end" '
            !begun { if ($0 == end) begun = 1; else want[$0]; next }
            $0 == end { whole = 1; next }
            /^[^ ]*(ls|grep): .*Permission denied$/ { blind = 1; next } # not the name of a file
            !index($0, "/") { next }
            { sub(/ \(deleted\)$/, ""); sub(/.*\//, "") }
            $0 == "ostype" { opened = 1 }
            $0 == me { mapped = 1 }
            ($0 in want) && !($0 in said_once) { said_once[$0]; print }
            END { if (whole && opened && mapped && !blind) print end }'
    )
    case $nl$in_use_found in *"$nl$in_use_end") ;; *) why='not every process could be inspected'; return 1 ;; esac
    printf '%s\n' "${in_use_found%"$in_use_end"}"
}
nl='
'
