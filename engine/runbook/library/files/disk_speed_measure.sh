settle
file=./$made/file
words=$( { true >"$file"; } 2>&1) || { echo failed; said "$words"; exit 0; }
exec 9<>"$file"
rm -f -- "$file"
if { true >>/proc/self/fd/9; } 2>/dev/null; then
    file=/proc/self/fd/9
    rmdir -- "./$made" 2>/dev/null && work=
fi
go() {  # what is measured, how, dd's words for it
    name=$1 how=$2; shift 2
    began=$(uptime)
    words=$(dd bs=1M "$@" 2>&1); rc=$?
    echo "$name $how $rc $began $(uptime)"; said "$words"
    return $rc
}
go write direct if=/dev/zero of="$file" count="$2" oflag=direct conv=notrunc && direct=yes ||
    go write fsync if=/dev/zero of="$file" count="$2" conv=notrunc,fsync || exit 0
[ -n "$direct" ] || exit 0
go read direct if="$file" of=/dev/null count="$2" iflag=direct
exit 0
