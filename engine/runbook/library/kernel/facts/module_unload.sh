PATH="$PATH:/usr/sbin:/sbin"; LC_ALL=C; export PATH LC_ALL
unload() { # module: never one that is in use
    [ -d "/sys/module/$1" ] || return 0
    uses=
    { IFS= read -r uses <"/sys/module/$1/refcnt"; } 2>/dev/null
    [ "$uses" = 0 ] || { echo "module $1 is in use (${uses:-unknown} references): nothing more is unloaded" >&2; exit 16; }
    rmmod -- "$1" </dev/null || { echo "module $1 was not unloaded" >&2; exit 17; }
}
for module; do unload "$module"; done
