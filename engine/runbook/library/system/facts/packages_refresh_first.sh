said=$(apt-get -q update 2>&1)
case $? in 0) said=$(printf '%s\n' "$said" | grep '^[WE]: ') ;; esac
[ -z "$said" ] || printf 'the package lists were not all refreshed: %s\n' "$said" >&2
exec "$@"
