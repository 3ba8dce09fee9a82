for one; do
    if said=$(apk info -e -- "$one" 2>&1); then printf 'installed %s \n' "$one"
    elif [ -z "$said" ]; then printf 'missing %s\n' "$one"
    else printf '%s\n' "$said" >&2; exit 3
    fi
done
exit 0
