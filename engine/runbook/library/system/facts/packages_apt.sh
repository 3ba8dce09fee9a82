for one; do
    if said=$(dpkg-query -W -f '${db:Status-Abbrev}|${Version}\n' -- "$one" 2>&1); then
        version=$(printf '%s\n' "$said" | sed -n 's/^.i *|//p' | tail -n 1)
        if [ -n "$version" ]; then printf 'installed %s %s\n' "$one" "$version"; continue; fi
    else
        case $said in *'no packages found matching'*) ;; *) printf '%s\n' "$said" >&2; exit 3 ;; esac
    fi
    if apt-cache policy -- "$one" 2>/dev/null | grep -q '^  Candidate: [^(]'; then printf 'missing %s\n' "$one"
    else printf 'unlisted %s\n' "$one"
    fi
done
exit 0
