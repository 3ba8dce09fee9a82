# $1 what to print of each container, $2 seconds for one answer: what nvidia-smi says in each running container with GPUs.
# What a container says is written in hexadecimal digits, so that it passes for nothing else.
ask info --format 'info {"cgroup_driver":{{json .CgroupDriver}},"cgroup_version":{{json .CgroupVersion}}}' || engine_failed
list ps -q --no-trunc
rows=$(inspect container inspect --format "$1") || exit 1
printf '%s\n' "$rows" | grep '^container ' || exit 0
limit=; timeout -k 1 1 true >/dev/null 2>&1 && limit="timeout -k 2 $2"
for it in /dev/nvidiactl /dev/nvidia[0-9]* /dev/nvidia-uvm; do
    [ -c "$it" ] || continue
    # shellcheck disable=SC2046 # two numbers
    set -- "$1" "$2" $(stat -c '%t %T' -- "$it") && [ $# = 4 ] || continue
    [ -e "/dev/char/$((0x$3)):$((0x$4))" ] || printf 'unlinked "%s"\n' "$it"
done
hex() { head -c 2000 | od -An -v -tx1 | tr -d ' \n'; }
within() { # $1 container, then a command: its exit code in `code`, what it said in `words`
    one=$1; shift
    words=$($limit docker exec -- "$one" "$@" 2>&1 </dev/null; echo ":$?")
    code=${words##*:} words=${words%:*}
}
claims() { # whether the container of $row, whose first process is $pid, was given GPUs
    case $row in *'"devices":'*nvidia*'"end"'* | *'"requests":[{'*) return 0 ;; esac
    [ "$pid" -gt 0 ] || return 1
    [ -e "/proc/$pid/root/dev/nvidiactl" ] && return 0
    # a runtime may be the default one, of containers without GPUs too: what they have decides, if it can be seen
    case $row in *'"runtime":"'*nvidia*'","privileged"'*) ! [ -d "/proc/$pid/root/" ] ;; *) return 1 ;; esac
}
hung=
printf '%s\n' "$rows" | grep '^container ' | while IFS= read -r row; do
    id=${row#*\"id\":\"}; id=${id%%\"*}
    pid=${row#*\"pid\":}; pid=${pid%%,*}
    claims || continue
    pids=$(docker top "$id" -eo pid 2>/dev/null </dev/null | grep -E '^ *[0-9]+$' | tr -s ' \n' ',')
    pids=${pids#,}
    if [ -n "$hung" ]; then printf 'view {"id":"%s","asked":false,"pids":[%s]}\n' "$id" "${pids%,}"; continue; fi
    within "$id" nvidia-smi -L
    smi=$code answer=$(printf %s "$words" | hex) open=0 refusal=
    case $smi in
        0 | 126 | 127) ;;
        124 | 137) hung=yes ;;
        *) within "$id" sh -c ': </dev/nvidiactl'; open=$code refusal=$(printf %s "$words" | hex) ;;
    esac
    printf 'view {"id":"%s","asked":true,"code":%s,"said":"%s","open":%s,"refusal":"%s","pids":[%s]}\n' \
        "$id" "$smi" "$answer" "$open" "$refusal" "${pids%,}"
done
