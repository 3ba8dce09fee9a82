# Whether the file $1 is there, and may be read.
LC_ALL=C; export LC_ALL
if [ ! -e "$1" ] && [ ! -L "$1" ]; then
    parent=${1%/*}
    if [ -x "${parent:-/}" ] || [ ! -e "${parent:-/}" ]; then echo absent; exit 0; fi
fi
if ! view_find "$1"; then echo refused; view_reason; exit 0; fi
if [ ! -r "./$name" ] || ! size=$(view_size); then printf 'refused\nthis user may not read %s\n\n' "$1"; exit 0; fi
echo "there $size"
