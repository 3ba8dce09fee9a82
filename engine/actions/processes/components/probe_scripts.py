"""The sh texts that look at the components of a host, and that wait for one to end.

What is kept of them lies in a folder there, with one folder in it for each name of a host, for it may be shared. In
that, for each component: ``NAME.started`` (turn, pid:start, its watcher's pid:start, boot, uptime, time, size of the
log, digest of how it was started), ``NAME.ended`` (turn, exit code, uptime, time) and ``NAME.asked`` (the turn that was
ended on purpose), each put there in one stroke. A turn is one start or end of components, and ``turn.N`` names the
process that does it. Uptimes are in hundredths of a second.
"""

from __future__ import annotations

from engine.shell import SAFE

COMMON = (
    SAFE
    + r"""
nl='
'
fail() { code=$1; shift; printf '%s\n' "$*" >&2; exit "$code"; }
stat_of() {  # pid: sets state, parent, group, session, threads, start, called; fails where there is no such process
    all=
    { while IFS= read -r line || [ -n "$line" ]; do all=$all$line; done </proc/"$1"/stat; } 2>/dev/null || return 1
    case $all in *') '*) ;; *) return 1 ;; esac
    called=${all#*\(} called=${called%)*}
    set -- ${all##*) }  # the name before it may hold anything
    state=$1 parent=$2 group=$3 session=$4 threads=${18} start=${20}
}
is_there() {  # pid:start, alive, or defunct with a thread that still lives
    case $1 in *[!0-9:]*|:*|*:|*:*:*) return 1 ;; esac
    stat_of "${1%:*}" && [ "$start" = "${1#*:}" ] || return 1
    case $state in Z|X|x) [ "$threads" -gt 1 ] || return 1 ;; esac
}
now() {
    IFS=' ' read -r up rest </proc/uptime || fail 3 '/proc/uptime cannot be read'
    up=${up%.*}${up#*.}; up=${up#0}
}
nap() { sleep 0.1 2>/dev/null || sleep 1; }
home() {  # a path: sets it to that, with ~/ filled in
    it=$1
    case $it in '~/'*) [ -n "${HOME-}" ] || fail 3 "$it: this user has no home folder"; it=${HOME%/}/${it#??} ;; esac
}
place() {  # where records lie: sets folder
    home "$1"
    host=$(uname -n) && [ -n "$host" ] || fail 3 'uname does not say what this host is called'
    folder=${it%/}/$host
    [ -d "$folder" ] || return 0
    [ -x "$folder" ] || fail 3 "$folder may not be read"
    ours_alone "$folder" && [ "$shared" = no ] || fail 3 "${why:-everybody can write to $folder}$(instead)"
    folder=$real
}
ours_alone() {  # directory: whether nobody else can exchange what is in it; sets real, or why and owner
    safe_resolve "$1" last && [ "$kind" = directory ] && safe_step "$real"
}
fit_to_work_in() {  # directory: whether root may start programs there; sets real, or why and owner
    real=$1
    [ "$safe_me" = 0 ] || return 0
    ours_alone "$1" || return 1
    [ "$shared" = no ] || { why="everybody can put files in $1"; return 1; }
}
instead() { [ -z "$owner" ] || printf ': give the step `become: %s`' "$owner"; }
log_place() {  # log: whether nobody else can lead what is written there elsewhere; sets real and kind
    safe_resolve "$1" last || return 1
    case $kind in absent | file) ;; *) why="$1 is no file"; return 1 ;; esac
}
numbers() { for word; do case $word in ''|*[!0-9]*) return 1 ;; esac; done; }
started() {  # name: fails where it has no record, or a damaged one; else sets what stands in it
    { IFS=' ' read -r turn_of key watcher its_boot began began_at size digest; } 2>/dev/null <"$folder/$1.started" ||
        return 1
    case $key,$watcher,$digest in *:*,*:*,?*) ;; *) return 1 ;; esac
    numbers "$turn_of" "${key%:*}" "${key#*:}" "${watcher%:*}" "${watcher#*:}" "$began" "$began_at" "$size"
}
ended() {  # name: sets exit_code, over and over_at; fails while it is not written down how that turn of it ended
    { IFS=' ' read -r said exit_code over over_at; } 2>/dev/null <"$folder/$1.ended" && [ "$said" = "$turn_of" ] &&
        numbers "$exit_code" "$over" "$over_at"
}
uids_of() {  # pid: sets uids to its real, effective, saved and file system uid; fails where there is no such process
    uids=$(sed -n 's/^Uid://p' /proc/"$1"/status 2>/dev/null | tr -s '\t' ' ') && [ -n "$uids" ]
}
marked() {  # name, or none for all: sets left, NAME=pid:start ... of what has the mark as a variable; fails if unknown
    left=
    one="[[:space:]]+${my_uids##* }"  # who waits for the memory of another user may wait for ever
    files=$(grep -s -l -E "^Uid:$one$one$one$one\$" /proc/[0-9]*/status | sed 's/status$/environ/')
    if command -v timeout >/dev/null 2>&1; then
        files=$(timeout 5 grep -s -l -F -z "$mark=$folder/${1:+$1;}" $files)
    else
        files=$(grep -s -l -F -z "$mark=$folder/${1:+$1;}" $files)
    fi
    case $? in 0|1|2) ;; *) return 1 ;; esac
    for file in $files; do
        file=${file#/proc/}; file=${file%/environ}
        uids_of "$file" && [ "$uids" = "$my_uids" ] || continue  # anybody may write anything into his own environment
        stat_of "$file" && one=$file:$start || continue
        whose=$(tr '\n\0' ' \n' 2>/dev/null <"/proc/$file/environ" | sed -n "s/^$mark=//p")
        case $whose in "$folder"/*';') whose=${whose#"$folder"/}; whose=${whose%;} ;; *) continue ;; esac
        case $whose in *[!A-Za-z0-9_-]*) continue ;; esac  # the mark only begins so, or stands there twice
        [ "$whose" = "${1:-$whose}" ] && is_there "$one" && left="$left $whose=$one"
    done
    return 0
}
IFS= read -r boot </proc/sys/kernel/random/boot_id || fail 3 'the kernel does not say which start of the host this is'
mark=RUNBOOK_COMPONENT
my_uids=$(id -u) my_uids=" $my_uids $my_uids $my_uids $my_uids"
[ "$(printf 'a\0b\0' | grep -zc '' 2>/dev/null)" = 2 ] || fail 3 'the grep of this host knows no -z'
"""
)

LOOK = (
    "LC_ALL=C; export LC_ALL\n"
    + COMMON
    + r"""
lines=$1; place "$2"; shift 2
me=$(id -u) && user=$(id -un 2>/dev/null || echo "$me") || fail 3 'id does not say who this is'
up_to=$folder
while [ ! -e "$up_to" ] && [ -n "$up_to" ]; do up_to=${up_to%/*}; done
up_to=${up_to:-/}
[ -d "$up_to" ] && [ -x "$up_to" ] || fail 3 "$user may not look into $up_to"
if [ -d "$folder" ]; then
    owner=$(stat -c %u "$folder") || fail 3 "stat does not show whose $folder is"
    [ "$owner" = "$me" ] || fail 3 "$folder belongs to another user (uid $owner): its records are not $user's"
fi
if [ ! -w "$up_to" ]; then echo "no - $up_to cannot be written to by $user"
elif ! ours_alone "$up_to"; then echo "no - $why$(instead)"
fi
command -v setsid >/dev/null 2>&1 || echo 'no - there is no setsid on this host (it comes with util-linux, or busybox)'
now
printf 'self %s %s\n' "$up" "$user"
turn=0
for it in "$folder"/turn.*; do
    it=${it##*.}
    case $it in ''|*[!0-9]*) ;; *) [ "$it" -le "$turn" ] || turn=$it ;; esac
done
key= its_boot=
{ IFS=' ' read -r key its_boot; } 2>/dev/null <"$folder/turn.$turn"
[ "$its_boot" = "$boot" ] && is_there "$key" && busy=${key%:*} || busy=-
printf 'turn %s %s\n' "$turn" "$busy"
all_left=
if marked; then
    all_left=$left
    for it in $left; do
        one=${it#*=}
        if stat_of "${one%:*}"; then printf 'left %s %s %s %s\n' "${it%%=*}" "$one" "$state" "$called"; fi
    done
else
    echo blind
fi
words_of() {  # pid: its arguments; fails where it has none, or they cannot be read
    set -- /proc/"$1"/cmdline
    if command -v timeout >/dev/null 2>&1; then words=$(timeout 5 tr '\000\n' '  ' <"$1")
    else words=$(tr '\000\n' '  ' <"$1")
    fi 2>/dev/null
    [ -n "$words" ] && printf '%s' "$words"
}
recorded() {  # name: fails where it has no record
    started "$1" && return
    [ -e "$folder/$1.started" ] || return 1
    started "$1" && return  # it was put there just now
    who="whatever has $mark=$folder/$1; in its environment"
    set +f
    if marked "$1"; then
        who=
        for it in $left; do it=${it#*=}; who="$who${who:+, }pid ${it%:*}"; done
    fi
    lost="the record $folder/$1.started is damaged, so that it is not known how $1 stands"
    [ -n "$who" ] || fail 3 "$lost; nothing of it runs: remove that file"
    fail 3 "$lost: end $who (its mark is on that), then remove that file"
}
strays() {  # of $name, whose leader $key is gone: says what is in its session without its mark
    set +f
    if ! stat_of "${key%:*}" || [ "$start" = "${key#*:}" ]; then  # else the number is another's now
        for it in $(grep -s -l -E "\) [A-Za-z] [0-9]+ [0-9]+ ${key%:*} " /proc/[0-9]*/stat 2>/dev/null); do
            it=${it#/proc/}; it=${it%/stat}
            stat_of "$it" && [ "$session" = "${key%:*}" ] && [ "$start" -ge "${key#*:}" ] || continue
            case $all_left' ' in *" $name=$it:$start "*) continue ;; esac
            if is_there "$it:$start"; then printf 'stray %s %s %s %s\n' "$name" "$it:$start" "$state" "$called"; fi
        done
    fi
    set -f
}
program_there() {  # program, folder, PATH
    case $1 in
        /*) [ -f "$1" ] && [ -x "$1" ] ;;
        */*) [ -f "$2/$1" ] && [ -x "$2/$1" ] ;;
        *) (
            IFS=:
            for dir in $3; do if [ -f "${dir:-.}/$1" ] && [ -x "${dir:-.}/$1" ]; then exit 0; fi; done
            exit 1
        ) ;;
    esac
}
obstacles() {  # to a start of $name
    if [ ! -d "$cwd" ] || [ ! -x "$cwd" ]; then echo "no $name there is no directory $cwd that $user may enter"
    elif ! fit_to_work_in "$cwd"; then echo "no $name its directory $cwd: $why$(instead)"
    fi
    if [ -z "$program" ]; then echo "no $name it has no \`argv\` to be started by"
    elif ! program_there "$program" "$cwd" "$path"; then
        echo "no $name there is no program $program (searched in ${path:-nothing})"
    fi
    dir=${log%/*}
    if [ -e "$log" ]; then
        if [ ! -f "$log" ]; then echo "no $name its log $log is no file"
        elif [ ! -w "$log" ]; then echo "no $name its log $log cannot be written to by $user"
        fi
    elif [ ! -d "${dir:-/}" ]; then echo "no $name there is no directory ${dir:-/} for its log"
    elif [ ! -w "${dir:-/}" ]; then echo "no $name its log $log cannot be made by $user"
    fi
    if [ -d "${dir:-/}" ] && ! log_place "$log"; then echo "no $name its log $log: $why$(instead)"; fi
}
log_size() {
    if [ -z "$exposed" ]; then wc -c <"$log"
    else (view_find "$log" && view_size) || stat -c %s -- "$log"
    fi
}
log_end() {  # bytes, of how many: the last ones of the log; where others can exchange it, of a regular file only
    if [ -z "$exposed" ]; then tail -c "$1" -- "$log"; return; fi
    (view_find "$log" && view_end "$1" "$2") || echo "(this log is not read: $exposed)"
}
set -f
while [ $# -gt 0 ]; do
    name=$1 program=$2 path=${5:-$PATH}
    home "$3"; cwd=$it
    home "$4"; log=$it
    shift 5
    status=never key=- watcher=- began=- began_at=- exit_code=- over=- over_at=- asked=no size=0 digest=-
    if recorded "$name"; then
        if [ "$its_boot" != "$boot" ]; then status=before
        elif is_there "$key"; then
            status=running
            printf 'does %s %s\n' "$name" "$(words_of "${key%:*}" || printf '[%s]' "$called")"
        else
            tries=0
            until ended "$name" || [ "$tries" -ge 20 ] || ! is_there "$watcher"; do tries=$((tries + 1)); nap; done
            if ended "$name"; then status=ended; else status=lost exit_code=- over=- over_at=-; fi
            strays
        fi
        said=
        { IFS= read -r said; } 2>/dev/null <"$folder/$name.asked"
        [ "$said" != "$turn_of" ] || asked=yes
    fi
    is_there "$watcher" && watched=yes || watched=no
    [ "$status" = running ] || obstacles
    printf 'part %s %s %s %s %s %s' "$name" "$status" "$key" "$watched" "$began" "$began_at"
    printf ' %s %s %s %s %s %s\n' "$exit_code" "$over" "$over_at" "$asked" "$digest" "$log"
    [ ! -f "$log" ] || [ -r "$log" ] || echo " (this log may not be read by $user)"
    log_place "$log" && exposed= || exposed=$why
    [ -f "$log" ] && [ -r "$log" ] && long=$(log_size) || continue
    [ "$size" -le "$long" ] || size=0  # it was begun anew since
    whole=$long long=$((long - size))
    [ "$long" -le 65536 ] || long=65536
    log_end "$long" "$whole" | tail -n "$lines" | tr '\000' ' ' | sed 's/^/ /'
    echo
done
exit 0
"""
)
"""``$1`` lines of each log, ``$2`` the folder, then for each component: name, program, folder, log and PATH.

The lines of a log are indented by one space, so that none can pass for one of ours. What a component wrote before its
present start is left out.
"""

WATCHER = r"""
runbook_nl='
'
runbook_field() {  # the next text on stdin: a number of lines, and these
    IFS= read -r runbook_more && IFS= read -r runbook_it || return 1
    while [ "$runbook_more" -gt 1 ]; do
        IFS= read -r runbook_line || return 1
        runbook_it=$runbook_it$runbook_nl$runbook_line runbook_more=$((runbook_more - 1))
    done
}
runbook_whose() {  # a line of stat: sets runbook_pid and runbook_key
    runbook_pid=${1%% *}
    set -- ${1##*) }
    runbook_key=$runbook_pid:${20}
}
runbook_now() {
    IFS=" " read -r runbook_up runbook_rest </proc/uptime
    runbook_up=${runbook_up%.*}${runbook_up#*.}; runbook_up=${runbook_up#0}
}
runbook_keep() {  # what, line: puts it there in one stroke
    printf "%s\n" "$2" >"$runbook_folder/.$runbook_name.$1" &&
        mv -f "$runbook_folder/.$runbook_name.$1" "$runbook_folder/$runbook_name.$1"
}
trap : HUP INT QUIT TERM
umask 077
IFS= read -r runbook_line </proc/$$/stat
runbook_whose "$runbook_line"
runbook_mine=$runbook_key
(
    set --
    runbook_field && runbook_env=$runbook_it && runbook_field || exit 125
    runbook_left=$((runbook_env * 2 + runbook_it))
    while [ "$runbook_left" -gt 0 ]; do
        runbook_field || exit 125
        set -- "$@" "$runbook_it"
        runbook_left=$((runbook_left - 1))
    done
    exec </dev/null
    IFS= read -r runbook_line </proc/self/stat
    runbook_whose "$runbook_line"
    runbook_now
    runbook_size=0
    if [ -f "$runbook_log" ]; then runbook_size=$(($(wc -c <"$runbook_log"))); fi
    runbook_line="$runbook_turn $runbook_key $runbook_mine $runbook_boot $runbook_up $(date +%s)"
    runbook_line="$runbook_line $runbook_size $runbook_digest"
    runbook_keep started "$runbook_line" || exit 125
    umask "$runbook_umask"
    exec >>"$runbook_log" 2>&1 || exit 126
    cd -- "$runbook_cwd" || exit 126
    unset OLDPWD
    while [ "$runbook_env" -gt 0 ]; do
        export "$1=$2"
        shift 2
        runbook_env=$((runbook_env - 1))
    done
    export "RUNBOOK_COMPONENT=$runbook_folder/$runbook_name;"
    set -- "$runbook_setsid" "$@"
    unset runbook_folder runbook_name runbook_turn runbook_boot runbook_setsid runbook_digest
    unset runbook_log runbook_cwd runbook_umask runbook_script
    exec "$@"
) 2>/dev/null
runbook_code=$?
runbook_now
runbook_keep ended "$runbook_turn $runbook_code $runbook_up $(date +%s)"
"""
"""Starts a component in a session of its own, waits for it, and writes down how it ended.

In its environment stand ``runbook_script`` (this), ``folder``, ``name``, ``turn``, ``boot``, ``setsid``, ``digest``,
``log``, ``cwd`` and ``umask``: no word of a component is an argument of it, so that no pattern for one finds it too. On
stdin come the numbers of variables and of words, then these: no list of processes shows a variable. All names of ours
begin with ``runbook_``, so that no variable of a component is one of them. It waits in the foreground: what a shell
starts in the background would ignore SIGINT for ever.
"""
