# Prints a part of a regular file, packed; never one that another user has put in its place.
# Parameters: end (yes, no), most bytes, the path.
LC_ALL=C; export LC_ALL
end=$1 most=$2
view_find "$3" || { printf '%s\n' "$why" >&2; exit 1; }
if [ ! -r "./$name" ] || ! size=$(view_size); then echo "this user may not read $3" >&2; exit 1; fi
read_it() {
    if [ "$exposed" = no ]; then fetch_part <"./$name"; return; fi
    if [ "$end" = yes ]; then view_end "$most" "$size" | fetch_part; return; fi
    dd if="./$name" iflag=nofollow,nonblock bs=65536 count=$((most / 65536 + 1)) 2>/dev/null | fetch_part
}
read_it | fetch_pack
printf '=end 0 %s %s\n' "$gzip" "$base64"
