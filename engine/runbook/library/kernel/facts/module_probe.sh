LC_ALL=C; export LC_ALL
PATH="$PATH:/usr/sbin:/sbin"
name=$2 library=$3 modules=$1/sys/module
first() { # path: its first line
    text=
    { IFS= read -r text <"$1"; } 2>/dev/null
    printf '%s' "$text"
}
[ -d "$modules" ] || { echo "there is no $modules" >&2; exit 3; }
seen=' '
walk() { # module: those that use it first, then itself
    case $seen in *" $1 "*) return ;; esac
    seen="$seen$1 "
    for user in "$modules/$1"/holders/*; do
        [ ! -e "$user" ] || walk "${user##*/}"
    done
    printf 'module %s %s' "$1" "$(first "$modules/$1/refcnt")"
    for user in "$modules/$1"/holders/*; do [ ! -e "$user" ] || printf ' %s' "${user##*/}"; done
    echo
}
if [ -d "$modules/$name" ]; then
    echo loaded
    [ -e "$modules/$name/initstate" ] || echo built-in
    echo "version $(first "$modules/$name/version")"
    walk "$name"
fi
echo "driver $(first "$1/proc/driver/$name/version")"
if command -v modinfo >/dev/null; then
    if found=$(modinfo -F version -- "$name" 2>&1 </dev/null); then
        echo "installed $(printf '%s\n' "$found" | head -n 1)"
    else
        echo "absent $(printf '%s\n' "$found" | head -n 1)"
    fi
fi
if [ -n "$library" ]; then
    path=$(ldconfig -p 2>/dev/null | sed -n "s|^[[:space:]]*$library (.*x86-64.*) => ||p; s|^[[:space:]]*$library (.*AArch64.*) => ||p" | head -n 1)
    for place in "$path" /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64 /usr/lib; do
        case $place in '') continue ;; *"/$library") ;; *) place=$place/$library ;; esac
        [ -e "$1$place" ] || continue
        echo "library $(readlink -f -- "$1$place")"
        break
    done
fi
for mark in /.dockerenv /run/.containerenv /run/systemd/container; do [ ! -e "$1$mark" ] || echo container; done
echo "user $(id -u)"
exit 0
