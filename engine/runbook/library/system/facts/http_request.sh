max=$1 plain=$2 most=$3
IFS= read -r url
url=${url#\# }
if command -v curl >/dev/null 2>&1; then
    echo 'tool curl' >&2
    { curl -q --config - --output /dev/fd/3 3>&1 1>&2; echo "exit $?" >&2; } | head -c "$max"
    exit 0
fi
command -v wget >/dev/null 2>&1 || { echo 'tool none' >&2; exit 0; }
limit=; timeout 1 true >/dev/null 2>&1 && limit="timeout $most"
if [ -z "$plain" ]; then
    echo 'tool wget shows' >&2
elif wget --version 2>/dev/null | grep -q 'GNU Wget'; then
    echo 'tool wget' >&2
    {
        printf '%s\n' "$url" |
            $limit wget --no-config -nv -S -O - --tries=1 --timeout="$most" --max-redirect=0 --content-on-error \
                --no-proxy -i -
        echo "exit $?" >&2
    } | head -c "$max"
else
    case $url in *\?*) echo 'tool wget shows' >&2; exit 0 ;; esac
    echo 'tool busybox wget' >&2
    { $limit wget -Y off -q -S -O - -- "$url"; echo "exit $?" >&2; } | head -c "$max"
fi
exit 0
