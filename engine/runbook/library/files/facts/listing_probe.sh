LC_ALL=C; export LC_ALL
inside=$1 without=$2 interval=$3 most=$4; shift 4
IFS= read -r end </proc/sys/kernel/random/uuid || { echo '/proc/sys/kernel/random/uuid cannot be read' >&2; exit 3; }
end=$(printf '\001')$end
list() {
    for glob in "$@"; do
        case $glob in '~/'*) glob=$HOME/${glob#??} ;; esac
        any=
        IFS=
        for one in $glob; do
            [ -e "$one" ] || [ -L "$one" ] || continue
            any=yes
            [ -z "$inside" ] || find "$one/." -type f -name "$inside" ! -name "$without" -exec stat -c "%s %Y %f %n$end" -- {} + 2>&1
        done
        if [ -z "$inside" ] && [ -n "$any" ]; then # one stat for many
            for one in $glob; do [ ! -e "$one" ] || printf '%s\0' "$one"; done | xargs -0 stat -L -c "%s %Y %f %n$end" --
            for one in $glob; do [ -e "$one" ] || printf '%s\0' "$one"; done | xargs -0 stat -c "%s %Y %f %n$end" --
        fi 2>/dev/null
        unset IFS
        if [ -z "$any" ]; then
            up=$glob
            while case $up in *[*?[]*) true ;; *) [ ! -e "$up" ] && [ -n "$up" ] ;; esac; do up=${up%/*}; done
            if [ -d "${up:-/}" ] && { [ ! -r "${up:-/}" ] || [ ! -x "${up:-/}" ]; }; then
                printf 'unreadable %s%s\n' "${up:-/}" "$end"
            else
                printf 'missing %s%s\n' "$glob" "$end"
            fi
        fi
    done
}
list_files() {
    printf 'now %s%s\n' "$(date +%s)" "$end"
    list "$@" | head -c "$most"
    printf '%s\n' "$end"
}
command -v stat >/dev/null || { echo 'stat is not on this host' >&2; exit 3; }
list_files "$@"
if [ -n "$interval" ]; then sleep "$interval"; list_files "$@"; fi
exit 0
