place "$1"; grace=$3 watch=$4 ends=$5 script=$6
safe_make_all "$folder" 700 && [ "$shared" = no ] || die 12 "$folder cannot be created: ${why:-everybody can write to it}"
folder=$(pwd -P) && cd / || die 12 "$folder cannot be read"
setsid=$(command -v setsid) && sh=$(command -v sh) || die 12 'setsid is not installed on this host'
take_turn "$2"
mask=$(umask) there='' begun=
watch_for() {  # hundredths of a second; fails when one of them has died
    now; until=$((up + $1))
    while :; do
        for it in $there; do is_there "${it#*=}" || return 1; done
        now; [ "$up" -lt "$until" ] || return 0
        nap
    done
}
own_log() {  # sets log to where it really lies; where everybody makes files it is made first, for nobody else can then
    log_place "$log" || return 1
    if [ "$kind" = absent ] && [ "$shared" = yes ]; then
        log=$real log_in=${real%/*}
        safe_enter "${log_in:-/}" && safe_tidy && safe_workshop || return 1
        why='it cannot be created'
        : >"./$work/log" && safe_put "./$work/log" "${log##*/}"
        made=$?
        rm -rf -- "./$work"
        cd / && [ "$made" = 0 ] && log_place "$log" && [ "$kind" = file ] || return 1
    fi
    log=$real
}
give_up() {
    nap; nap; nap  # those that die together write it down by then
    reversed=
    for it in $there; do reversed="$it $reversed"; done
    [ "$ends" != yes ] || for one in $reversed; do end_one "${one%%=*}" "${one#*=}"; done
    exit 1
}
while field verb && [ "$verb" != end ]; do
    field name
    if [ "$verb" = runs ]; then field key
    else
        field delay
        [ -z "$begun" ] || watch_for "$delay" || give_up
        [ -e "$folder/turn.$turn" ] || die 11 'another process has begun to start or end components: the rest was not started'
        field log; home "$log"; log=$it
        own_log || { echo "$name: its log $log: $why" >&2; give_up; }
        field cwd; home "$cwd"; cwd=$it
        fit_to_work_in "$cwd" || { echo "$name: its directory $cwd: $why" >&2; give_up; }
        cwd=$real
        field spelled
        (
            outlive  # what ends this command shall leave the watcher alone, too
            runbook_folder=$folder runbook_name=$name runbook_turn=$turn runbook_boot=$boot \
                runbook_setsid=$setsid runbook_digest=$spelled runbook_log=$log runbook_cwd=$cwd runbook_umask=$mask \
                runbook_script=$script \
                "$setsid" "$setsid" "$sh" -c 'eval "$runbook_script"' runbook-watcher >/dev/null 2>&1
        )
        tries=0
        until started "$name" && [ "$turn_of" = "$turn" ]; do
            tries=$((tries + 1))
            [ "$tries" -le 100 ] || { echo "$name could not be started" >&2; give_up; }
            nap
        done
        begun=yes
    fi
    there="$there $name=$key"
done
watch_for "$watch" || give_up
exit 0
