LC_ALL=C; export LC_ALL
umask 077
place=$1
case $place in '~') place=$HOME ;; '~/'*) place=$HOME/${place#??} ;; esac
made='' work=''
clean() { [ -z "$work" ] || rm -rf -- "./$work"; }
trap 'clean' EXIT
trap 'clean; trap - EXIT; exit 143' HUP INT TERM
uptime() { read -r up rest </proc/uptime 2>/dev/null && echo "$up"; }
said() { printf '%s\n' "$1" | sed 's/^/ /'; }
refuse() { echo refused; said "$why"; echo "become $owner"; exit 0; }
settle() {  # goes to the directory, and makes a directory of our own in it: its name is $made
    if ! safe_enter "$place"; then
        if [ -d "$place" ] && [ -x "$place" ]; then refuse; fi
        echo 'failed mkdir'; said "$(ls -d -- "$place/." 2>&1)"; exit 0
    fi
    safe_tidy
    safe_workshop && made=$work && return
    [ -z "$owner" ] || refuse
    echo 'failed mkdir'; said "$why"; exit 0
}
