"""The sh text that asks over HTTP; address, headers and body come on stdin, and go to curl on its stdin."""

from __future__ import annotations

ASK = r"""
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
"""
"""The body goes to stdout, everything else to stderr.  GNU wget reads the address from stdin; busybox's cannot, so that
an address with a query in it, which may be a secret, is not given to it."""

SEND = r"""
wanted=$1 settle=$2
command -v curl >/dev/null 2>&1 || exit 127
answer=$({
    { curl -q --config - --output /dev/fd/3 3>&1 1>&4; echo "exit $?" >&4; } |
        { head -c 300; echo; cat >/dev/null; } | sed 's/^/body /'
} 4>&1 2>&4)
status=$(printf '%s\n' "$answer" | sed -n 's/^status \([0-9][0-9]*\)$/\1/p' | tail -n 1)
case $status in
    [45]??) printf '%s\n' "$answer" ;;
    *) printf '%s\n' "$answer" | grep -v '^body ' ;;
esac
case $wanted in
    '') case $status in 2??) ;; *) exit 9 ;; esac ;;
    *) case " $wanted " in *" $status "*) ;; *) exit 9 ;; esac ;;
esac
[ "$settle" = 0 ] || sleep "$settle"
exit 0
"""
"""What a change is answered with may hold what nobody else should know (a new token): its body stays on the host, but
for the first words of an error."""
