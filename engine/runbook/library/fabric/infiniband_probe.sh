LC_ALL=C; export LC_ALL
tab=$(printf '\t')
line() { # words: one line with tabs between them; an empty word is -
    out=
    for word in "$@"; do out=$out$tab${word:--}; done
    printf '%s\n' "${out#"$tab"}"
}
value() { # path: sets text to the first line, without tabs; a port that is down may refuse to say
    text=
    { IFS= read -r text <"$1"; } 2>/dev/null
    while :; do case $text in *"$tab"*) text="${text%%"$tab"*} ${text#*"$tab"}" ;; *) break ;; esac; done
}
first() { # paths: the name of the first that is there
    [ ! -e "$1" ] || printf '%s' "${1##*/}"
}
counters() { # kind of row, then the port's directory
    value "$2/counters/link_downed"; downed=$text
    value "$2/counters/link_error_recovery"; recovered=$text
    value "$2/counters/symbol_error"; symbols=$text
    line "$1" "$2" "$downed" "$recovered" "$symbols"
}
[ ! -d "$1/sys/class" ] || line probed
there=
for port in "$1"/sys/class/infiniband/*/ports/*; do
    [ -d "$port" ] || continue
    there=1 card=${port%/ports/*}
    bus=$(readlink "$card/device")
    value "$port/link_layer"; layer=$text; value "$port/state"; state=$text; value "$port/phys_state"; physical=$text
    value "$port/rate"; rate=$text; value "$card/board_id"; board=$text; value "$card/fw_ver"; firmware=$text
    line port "$port" "${card##*/}" "${port##*/}" "$layer" "$state" "$physical" "$rate" "${bus##*/}" \
        "$(first "$card"/device/net/*)" "$board" "$firmware"
    counters before "$port"
done
for device in "$1"/sys/bus/pci/devices/*/class; do
    value "$device"; class=$text
    case $class in 0x0207*) bus=${device%/class}; line card "${bus##*/}" ;; esac
done
[ -n "$there" ] || exit 0
sleep "$2"
for port in "$1"/sys/class/infiniband/*/ports/*; do
    [ ! -d "$port" ] || counters after "$port"
done
exit 0
