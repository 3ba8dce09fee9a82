lines=$1; place "$2"; shift 2
me=$(id -u) && user=$(id -un 2>/dev/null || echo "$me") || die 3 'id does not say who this is'
up_to=$folder
while [ ! -e "$up_to" ] && [ -n "$up_to" ]; do up_to=${up_to%/*}; done
up_to=${up_to:-/}
[ -d "$up_to" ] && [ -x "$up_to" ] || die 3 "$user may not look into $up_to"
if [ -d "$folder" ]; then
    owner=$(stat -c %u "$folder") || die 3 "stat does not show whose $folder is"
    [ "$owner" = "$me" ] || die 3 "$folder belongs to another user (uid $owner): its records are not $user's"
fi
if [ ! -w "$up_to" ]; then echo "no - $up_to cannot be written to by $user"
elif ! ours_alone "$up_to"; then echo "no - $why$(instead)"
fi
command -v setsid >/dev/null 2>&1 || echo 'no - setsid is not installed on this host (it is part of util-linux, and of busybox)'
now
printf 'self %s %s\n' "$up" "$user"
turn=0
for it in "$folder"/turn.*; do
    it=${it##*.}
    case $it in ''|*[!0-9]*) ;; *) [ "$it" -le "$turn" ] || turn=$it ;; esac
done
key='' its_boot=
{ IFS=' ' read -r key its_boot; } 2>/dev/null <"$folder/turn.$turn"
[ "$its_boot" = "$boot" ] && is_there "$key" && busy=${key%:*} || busy=-
printf 'turn %s %s\n' "$turn" "$busy"
all_left=
if marked; then
    all_left=$left
    for it in $left; do
        one=${it#*=}
        if stat_of "${one%:*}"; then printf 'left %s %s %s %s\n' "${it%%=*}" "$one" "$state" "$called"; fi
    done
else
    echo blind
fi
words_of() {  # pid: its arguments; fails where it has none, or they cannot be read
    set -- /proc/"$1"/cmdline
    if command -v timeout >/dev/null 2>&1; then words=$(timeout 5 tr '\000\n' '  ' <"$1")
    else words=$(tr '\000\n' '  ' <"$1")
    fi 2>/dev/null
    [ -n "$words" ] && printf '%s' "$words"
}
recorded() {  # name: fails where it has no record
    started "$1" && return
    [ -e "$folder/$1.started" ] || return 1
    started "$1" && return  # it was put there just now
    who="whatever has $mark=$folder/$1; in its environment"
    set +f
    if marked "$1"; then
        who=
        for it in $left; do it=${it#*=}; who="$who${who:+, }pid ${it%:*}"; done
    fi
    lost="the record $folder/$1.started is damaged, so that it is not known how $1 stands"
    [ -n "$who" ] || die 3 "$lost; nothing of it runs: remove that file"
    die 3 "$lost: end $who (its mark is on that), then remove that file"
}
strays() {  # of $name, whose leader $key is gone: says what is in its session without its mark
    set +f
    if ! stat_of "${key%:*}" || [ "$start" = "${key#*:}" ]; then  # else the number is another's now
        for it in $(grep -s -l -E "\) [A-Za-z] [0-9]+ [0-9]+ ${key%:*} " /proc/[0-9]*/stat 2>/dev/null); do
            it=${it#/proc/}; it=${it%/stat}
            stat_of "$it" && [ "$session" = "${key%:*}" ] && [ "$start" -ge "${key#*:}" ] || continue
            case $all_left' ' in *" $name=$it:$start "*) continue ;; esac
            if is_there "$it:$start"; then printf 'stray %s %s %s %s\n' "$name" "$it:$start" "$state" "$called"; fi
        done
    fi
    set -f
}
program_there() {  # program, folder, PATH
    case $1 in
        /*) [ -f "$1" ] && [ -x "$1" ] ;;
        */*) [ -f "$2/$1" ] && [ -x "$2/$1" ] ;;
        *) (
            IFS=:
            for dir in $3; do if [ -f "${dir:-.}/$1" ] && [ -x "${dir:-.}/$1" ]; then exit 0; fi; done
            exit 1
        ) ;;
    esac
}
obstacles() {  # to a start of $name
    if [ ! -d "$cwd" ] || [ ! -x "$cwd" ]; then echo "no $name there is no directory $cwd that $user can enter"
    elif ! fit_to_work_in "$cwd"; then echo "no $name its directory $cwd: $why$(instead)"
    fi
    if [ -z "$program" ]; then echo "no $name it has no \`argv\` to start"
    elif ! program_there "$program" "$cwd" "$path"; then
        echo "no $name there is no program $program (searched in ${path:-nothing})"
    fi
    dir=${log%/*}
    if [ -e "$log" ]; then
        if [ ! -f "$log" ]; then echo "no $name its log $log is not a file"
        elif [ ! -w "$log" ]; then echo "no $name its log $log cannot be written to by $user"
        fi
    elif [ ! -d "${dir:-/}" ]; then echo "no $name there is no directory ${dir:-/} for its log"
    elif [ ! -w "${dir:-/}" ]; then echo "no $name its log $log cannot be created by $user"
    fi
    if [ -d "${dir:-/}" ] && ! log_place "$log"; then echo "no $name its log $log: $why$(instead)"; fi
}
log_size() {
    if [ -z "$exposed" ]; then wc -c <"$log"
    else (view_find "$log" && view_size) || stat -c %s -- "$log"
    fi
}
log_end() {  # bytes, of how many: the last ones of the log; where others can exchange it, of a regular file only
    if [ -z "$exposed" ]; then tail -c "$1" -- "$log"; return; fi
    (view_find "$log" && view_end "$1" "$2") || echo "(this log is not read: $exposed)"
}
set -f
while [ $# -gt 0 ]; do
    name=$1 program=$2 path=${5:-$PATH}
    home "$3"; cwd=$it
    home "$4"; log=$it
    shift 5
    status=never key=- watcher=- began=- began_at=- exit_code=- over=- over_at=- asked=no size=0 digest=-
    if recorded "$name"; then
        if [ "$its_boot" != "$boot" ]; then status=before
        elif is_there "$key"; then
            status=running
            printf 'does %s %s\n' "$name" "$(words_of "${key%:*}" || printf '[%s]' "$called")"
        else
            tries=0
            until ended "$name" || [ "$tries" -ge 20 ] || ! is_there "$watcher"; do tries=$((tries + 1)); nap; done
            if ended "$name"; then status=ended; else status=lost exit_code=- over=- over_at=-; fi
            strays
        fi
        said=
        { IFS= read -r said; } 2>/dev/null <"$folder/$name.asked"
        [ "$said" != "$turn_of" ] || asked=yes
    fi
    is_there "$watcher" && watched=yes || watched=no
    [ "$status" = running ] || obstacles
    printf 'part %s %s %s %s %s %s' "$name" "$status" "$key" "$watched" "$began" "$began_at"
    printf ' %s %s %s %s %s %s\n' "$exit_code" "$over" "$over_at" "$asked" "$digest" "$log"
    [ ! -f "$log" ] || [ -r "$log" ] || echo " (this log cannot be read by $user)"
    log_place "$log" && exposed= || exposed=$why
    [ -f "$log" ] && [ -r "$log" ] && long=$(log_size) || continue
    [ "$size" -le "$long" ] || size=0  # it was begun again since
    whole=$long long=$((long - size))
    [ "$long" -le 65536 ] || long=65536
    log_end "$long" "$whole" | tail -n "$lines" | tr '\000' ' ' | sed 's/^/ /'
    echo
done
exit 0
