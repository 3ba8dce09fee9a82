for one; do
    if said=$(rpm -q --qf '%{VERSION}-%{RELEASE}\n' -- "$one" 2>&1); then
        printf 'installed %s %s\n' "$one" "${said##*
}"
    else
        case $said in *'is not installed'*) printf 'missing %s\n' "$one" ;; *) printf '%s\n' "$said" >&2; exit 3 ;; esac
    fi
done
exit 0
