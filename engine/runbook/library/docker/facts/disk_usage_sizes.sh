while [ "$1" != -- ]; do ids="${ids:-}$1
"; shift; done
shift
ids=$(printf %s "${ids:-}")
inspect container inspect --size --format 'written {"id":{{json .Id}},"size":{{json .SizeRw}}}'
while [ "$1" != -- ]; do
    ask history --no-trunc --human=false --format 'layer {"id":"'"$1"'","size":{{json .Size}}}' "$1" || vanished || engine_failed
    shift
done
shift
for it in "$@"; do
    for file in "$it" "$it".*; do
        [ -e "$file" ] || continue
        size=$(stat -c %s -- "$file" 2>/dev/null) && printf 'log {"path":"%s","size":%s}\n' "$it" "$size"
    done
done
exit 0
