kind=$1 what=$2 wanted=$3 most=$4 every=$5
there() {
    if [ $kind = path ]; then [ -e "$what" ] || [ -L "$what" ]; return; fi
    seen=
    for table in /proc/net/tcp /proc/net/tcp6; do  # columns: slot, local address:port, remote, state (0A: listening)
        [ -r $table ] || continue
        seen=yes
        while read -r slot local remote state rest; do
            [ "$state" = 0A ] || continue
            case $local in
                00000000:"$what"|??????7F:"$what") return 0 ;;
                00000000000000000000000000000000:"$what"|00000000000000000000000001000000:"$what") return 0 ;;
                0000000000000000FFFF0000??????7F:"$what"|0000000000000000FFFF000000000000:"$what") return 0 ;;
            esac
        done <$table
    done
    [ -n "$seen" ] || { echo 'cannot read /proc/net/tcp, so listening ports are not known' >&2; exit 3; }
    return 1
}
began=$(date +%s)
while :; do
    if there; then now=there; else now=gone; fi
    [ $now = "$wanted" ] && exit 0
    [ $(($(date +%s) - began)) -ge "$most" ] && exit 1
    sleep "$every"
done
