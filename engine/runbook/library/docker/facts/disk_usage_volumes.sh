format=$1; shift
for it in "$@"; do
    said=$(docker volume ls -q ${it:+--filter "label=${it#*:}"} 2>&1 </dev/null) || engine_failed
    names=$said
    [ -z "$names" ] || printf '%s\n' "$names" | sed "s/.*/${it%%:*} \"&\"/"
done
said=$(docker volume ls -q 2>&1 </dev/null) || engine_failed
ids=$said
inspect volume inspect --format "$format"
