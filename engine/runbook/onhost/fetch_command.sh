# Runs a program with its own time limit, and prints what it says, packed.
# Parameters: end (yes, no), most bytes, seconds, a directory of its own (yes, no), the program with its arguments.
LC_ALL=C PATH=$PATH:/usr/sbin:/sbin:/usr/bin:/usr/local/nvidia/bin; export LC_ALL PATH
end=$1 most=$2 limit=$3 own=$4; shift 4
if [ "$own" = yes ]; then
    safe_enter /var/tmp && safe_tidy && safe_workshop || { echo "no directory of its own could be made: $why" >&2; exit 1; }
    made=/var/tmp/$work
    trap 'cd / && rm -rf -- "$made"' EXIT
    trap 'exit 143' TERM HUP INT
    cd "./$work" || exit 1
fi
if timeout -k 1 5 true 2>/dev/null; then set -- timeout -k 5 "$limit" "$@"; fi
exec 4>&1
code=$({ { "$@" </dev/null 2>&1 3>&- 4>&-; echo $? >&3; } | fetch_part 3>&- | fetch_pack >&4 3>&-; } 3>&1)
printf '=end %s %s %s\n' "${code:-0}" "$gzip" "$base64"
