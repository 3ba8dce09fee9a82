LC_ALL=C; export LC_ALL
leads_to() { r=$(readlink -f "$1"; echo x); r=${r%x}; r=${r%?}; [ -n "$r" ]; }
peek() {  # path, `follow` or `stay`: goes to its directory, and sets what is said below
    case $1 in '~/'*) [ -n "$HOME" ] || fail "$1: this user has no home folder"; path=${HOME%/}/${1#??} ;; esac
    user=$(id -un 2>/dev/null || id -u)
    unsafe='' become='' exposed=no target=$path there=no writable=no
    [ "$2" = follow ] && last=last || last=''
    if safe_beside "$path" $last; then
        if [ -n "$last" ] && [ -L "$path" ]; then target=$real; fi
        there=yes
    else
        unsafe=$why become=$owner exposed=yes kind=absent
        if [ -n "$last" ] && [ -L "$path" ]; then
            leads_to "$path" || fail "$path is a symbolic link that leads nowhere"
            target=$r
        fi
        name=${target##*/} dir=${target%/*}
        if [ -f "$target" ] && { [ -n "$last" ] || [ ! -L "$path" ]; }; then peek_file
        elif [ -d "${dir:-/}" ]; then peek_exposed
        else unsafe='' become=''
        fi
    fi
    if [ $there = yes ] && [ -w . ] && [ -x . ]; then writable=yes; fi
}
peek_file() {  # goes to the regular file that is meant, unless anybody who led us there may not read it
    if ! view_find "$path"; then
        printf '%s\nbecome %s\n' "$(printf %s "$why" | tr '\n' '?')" "$owner" >&2
        exit 4
    fi
    there=yes kind=file exposed=yes
    if [ -L "$path" ]; then target=$here/$name; fi
}
peek_exposed() {  # goes there all the same, for a probe: nothing is ever opened but a regular file
    there=yes
    leads_to "${dir:-/}" && cd -P -- "$r" 2>/dev/null || fail "$path: $user cannot access the directory ${dir:-/}"
    here=$(env pwd -P; echo x); here=${here%x}; here=${here%?}
    [ "$here" = "$r" ] || fail "$path now leads elsewhere than before"
    if safe_stat "./$name"; then
        case $mode in -*) kind='file' ;; d*) kind='directory' ;; l*) kind='link' ;; *) kind='other' ;; esac
    elif [ ! -x . ]; then fail "$path: $user cannot access the directory ${dir:-/}"
    fi
}
nothing_there() {  # fails where that cannot be known
    [ $there = no ] || { [ -x . ] || fail "$path: $user cannot access the directory ${target%/*}"; return 0; }
    up=${target%/*}
    while [ ! -e "$up" ] && [ -n "$up" ]; do up=${up%/*}; done
    [ -d "${up:-/}" ] || fail "$path: ${up:-/} is not a directory"
    [ -x "${up:-/}" ] || fail "$path: $user cannot access the directory ${up:-/}"
}
whole() { (most='' && content); }
bytes() { if [ "$exposed" = no ]; then wc -c <"./$name"; else content | wc -c; fi; }
content() {  # what is in the regular file ./$name; $most bytes and some more of it where it is exposed
    if [ "$exposed" = no ]; then cat <"./$name"; return; fi
    dd if=/dev/null iflag=nofollow,nonblock 2>/dev/null || {
        printf '%s\nbecome %s\n' "$unsafe" "$become" >&2
        exit 4
    }
    dd if="./$name" iflag=nofollow,nonblock bs=4096 ${most:+count=$((most / 4096 + 1))} 2>/dev/null
}
