name=$1 lines=$2 since=$3 most=$4
ask container inspect --format "$5" -- "$name" || { vanished && { echo 'missing ""'; exit 0; }; engine_failed; }
ask info --format 'clock {{json .SystemTime}}' || engine_failed
echo 'log ""'
if [ "$since" -gt 0 ]; then set -- --since "${since}s"; else set --; fi
{ code=$({ { docker logs --timestamps --tail "$lines" "$@" -- "$name" 2>&1 </dev/null; echo $? >&4; } |
    tail -c "$most" | sed 's/^/ /' >&3; } 4>&1); } 3>&1
echo
printf 'code %s\n' "$code"
