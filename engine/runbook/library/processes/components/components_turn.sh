field() {  # the next text on stdin, for the variable of that name
    IFS= read -r more && IFS= read -r it || die 12 'the instructions for this step were truncated'
    while [ "$more" -gt 1 ]; do
        IFS= read -r line || die 12 'the instructions for this step were truncated'
        it=$it$nl$line more=$((more - 1))
    done
    eval "$1=\$it"
}
overtaken() {  # turn: fails if there is none after it
    for it in "$folder"/turn.*; do
        it=${it##*.}
        case $it in *[!0-9]*) continue ;; esac
        [ "$it" -le "$1" ] || return 0
    done
    return 1
}
too_late() { die 11 'another process has begun to start or end components since they were inspected: nothing was done'; }
take_turn() {  # the last turn that was seen, or that and yes to go on without a file: only one of those who saw it does
    IFS=' ' read -r me rest </proc/self/stat && stat_of "$me" || die 3 '/proc cannot be read'
    turn=$(($1 + 1)) mine=$me:$start ours=" 0 1 "
    while [ "$me" -gt 1 ] && stat_of "$me"; do ours="$ours$me "; me=$parent; done
    me=${mine%:*}
    won=no why="$folder cannot be written to"
    if { printf '%s\n' "$mine $boot" >"$folder/.turn.$me"; } 2>/dev/null && [ -s "$folder/.turn.$me" ]; then
        why="no hard link can be created in $folder: keep the records on another disk"
        if ln "$folder/.turn.$me" "$folder/turn.$turn" 2>/dev/null; then won=yes; fi
    fi
    rm -f "$folder/.turn.$me" 2>/dev/null
    if [ $won = no ]; then
        ! overtaken "$1" || too_late
        [ "${2-}" = yes ] || die 12 "$why"
        return 0  # a full disk is no reason to let them run, and the host's own lock is held all the same
    fi
    if overtaken "$turn"; then
        rm -f "$folder/turn.$turn"
        too_late
    fi
    for it in "$folder"/turn.*; do
        it=${it##*.}
        case $it in *[!0-9]*) continue ;; esac
        [ "$it" -eq "$turn" ] || rm -f "$folder/turn.$it"
    done
}
