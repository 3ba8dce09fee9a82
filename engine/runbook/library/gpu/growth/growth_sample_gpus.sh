n=0
while :; do
    gpus sample "$3"
    usable || exit 0
    n=$((n + 1))
    [ $n -lt "$1" ] || exit 0
    sleep "$2"
done
