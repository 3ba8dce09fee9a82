LC_ALL=C; export LC_ALL
first=$1 then=$2 wait1=$3 wait2=$4; shift 4
send() {  # signal, pid:start; looks at the start time and signals in one go
    is_there "$2" || return 0
    if kill -s "$1" "${2%:*}" 2>/dev/null; then
        [ "$state" != T ] || [ "$1" = KILL ] || kill -s CONT "${2%:*}" 2>/dev/null
    elif is_there "$2"; then denied="$denied $2 "
    fi
}
await() {  # hundredths of a second: until all in $left are gone, or the time is over
    uptime || exit 3
    end=$((up + $1))
    while :; do
        still=
        for one in $left; do
            if is_there "$one"; then still="$still $one"; else echo "${one%:*} gone$by"; fi
        done
        left=$still
        [ -n "$left" ] || return 0
        uptime || exit 3; [ "$up" -lt "$end" ] || return 0
        sleep 0.1 2>/dev/null || sleep 1
    done
}
IFS=' ' read -r me rest </proc/self/stat && stat_of "$me" || { echo '/proc cannot be read' >&2; exit 3; }
ours=" 0 1 " up=$me
while [ "$up" -gt 1 ] && stat_of "$up"; do ours="$ours$up "; up=$parent; done
case $ours in *" $$ "*) ;; *) echo '/proc shows the pids of another pid namespace' >&2; exit 3 ;; esac
left='' denied='' refused='' by=
for one; do
    case $one in *[!0-9:]*|:*|*:|*:*:*) echo "not a pid and a start time: $one" >&2; exit 3 ;; *:*) ;; *) exit 3 ;; esac
    case $ours in *" ${one%:*} "*) echo "${one%:*} refused: our own connection needs it"; refused=1; continue ;; esac
    if is_there "$one"; then left="$left $one"
    elif stat_of "${one%:*}" && [ "$start" != "${one#*:}" ]; then echo "${one%:*} reused: another process has that pid"
    else echo "${one%:*} was gone"
    fi
done
for one in $left; do send "$first" "$one"; done
await "$wait1"
if [ -n "$left" ] && [ "$then" != nothing ]; then
    denied=
    for one in $left; do send "$then" "$one"; done
    by=" after $then"
    await "$wait2"
fi
for one in $left; do
    is_there "$one" || { echo "${one%:*} gone$by"; continue; }
    refused=1
    case $denied in *" $one "*) echo "${one%:*} not permitted" ;; *) echo "${one%:*} survives in state $state" ;; esac
done
sleep 0.5 2>/dev/null || sleep 1  # a supervisor restarts its process within this, and the second probe names it
[ -z "$refused" ] || exit 1
exit 0
