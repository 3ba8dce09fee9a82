began=$(uptime)
settle
line="runbook write probe $$ $began"
words=$( { yes "$line" 2>/dev/null | head -c "$2" | dd of="./$made/file" bs=65536 conv=fsync; } 2>&1) || {
    echo 'failed write'; said "$(printf '%s\n' "$words" | grep -v records)"; exit 0
}
size=$(wc -c <"./$made/file" 2>&1) || { echo 'failed read'; said "$size"; exit 0; }
words=$( { yes "$line" 2>/dev/null | head -c "$2" | cmp - "./$made/file"; } 2>&1) || {
    echo 'failed compare'; said "${words:-the data read differs from the data written}"; exit 0
}
words=$(rm -rf -- "./$made" 2>&1)
if [ -e "./$made" ]; then echo 'failed delete'; said "$words"; echo "left ${place%/}/$made"; exit 0; fi
work=
printf 'began %s\nended %s\n' "$began" "$(uptime)"
exit 0
