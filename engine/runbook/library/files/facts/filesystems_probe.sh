LC_ALL=C; export LC_ALL
limit=; timeout 1 true >/dev/null 2>&1 && limit='timeout 8'
echo table
sed 's/^/ /' /proc/self/mountinfo 2>/dev/null
at=0
for path in "$@"; do
    case $path in '~') path=$HOME ;; '~/'*) path=$HOME/${path#??} ;; esac
    printf 'path %s\n' "$at"; at=$((at + 1))
    $limit ls -d -- "$path" >/dev/null 2>&1; rc=$?
    case $rc in 124|137|143) echo 'late'; continue ;; esac
    if [ ! -e "$path" ]; then
        [ $rc = 0 ] || ls -d -- "$path" 2>&1 | sed 's/^/ /'
        echo missing; continue
    fi
    echo blocks; $limit df -P -k -- "$path" 2>&1 | sed 's/^/ /'
    echo inodes; $limit df -P -i -- "$path" 2>&1 | sed 's/^/ /'
done
exit 0
