nl='
'
now() {
    IFS=' ' read -r up rest </proc/uptime || die 3 '/proc/uptime cannot be read'
    up=${up%.*}${up#*.}; up=${up#0}
}
home() {  # a path: sets it to that, with ~/ filled in
    it=$1
    case $it in '~/'*) [ -n "${HOME-}" ] || die 3 "$it: this user has no home directory"; it=${HOME%/}/${it#??} ;; esac
}
place() {  # where records lie: sets folder
    home "$1"
    host=$(uname -n) && [ -n "$host" ] || die 3 'uname does not report the name of this host'
    folder=${it%/}/$host
    [ -d "$folder" ] || return 0
    [ -x "$folder" ] || die 3 "$folder cannot be read"
    ours_alone "$folder" && [ "$shared" = no ] || die 3 "${why:-everybody can write to $folder}$(instead)"
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
    case $kind in absent | file) ;; *) why="$1 is not a file"; return 1 ;; esac
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
IFS= read -r boot </proc/sys/kernel/random/boot_id || die 3 '/proc/sys/kernel/random/boot_id cannot be read'
mark=RUNBOOK_COMPONENT
my_uids=$(id -u) my_uids=" $my_uids $my_uids $my_uids $my_uids"
[ "$(printf 'a\0b\0' | grep -zc '' 2>/dev/null)" = 2 ] || die 3 'grep on this host has no option -z'
