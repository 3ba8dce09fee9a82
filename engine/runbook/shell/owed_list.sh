# Prints the notes of this user's runs about clean-ups that are owed to this host; makes and changes nothing.
#
# Short, because it goes along with the first probes of every run. It believes only what lies in a directory of this very
# user's that is closed to all others (owed.sh makes the notes): in root's that is nobody's but root's.

LC_ALL=C
export LC_ALL
unset CDPATH
some='' # on a host without a note this costs no process
for one in "${RUNBOOK_LOCK_PLACES:-/-}" /run/runbook /var/run/runbook "${HOME:-/-}/.cache/runbook" /run/user/*/runbook; do
    for note in "$one"/*/owed-*; do [ ! -O "$note" ] || some=yes; done
done
[ -n "$some" ] || exit 0
me=$(id -u) user=$(id -un 2>/dev/null)
realm='' word=$(readlink /proc/self/ns/pid 2>/dev/null | tr -dc 0-9)
{ IFS= read -r realm </proc/sys/kernel/random/boot_id; } 2>/dev/null || exit 0
realm=${realm%%-*}${realm##*-}-$word

ours() { # name, letter of a directory or a file: whether that is this user's alone
    line=$(ls -ldn -- "$1" 2>/dev/null) || return 1
    # shellcheck disable=SC2086 # words
    set -- "$2" ${line%%./*}
    case $2 in "$1"rw?------ | "$1"rw?------.) [ "$4" = "$me" ] ;; *) return 1 ;; esac
}

alive() { # words pid:start: whether one of these processes lives
    case $1 in *[!0-9:\ ]*) return 1 ;; esac
    for word in $1; do
        line=''
        { IFS= read -r line </proc/"${word%%:*}"/stat; } 2>/dev/null || continue
        # shellcheck disable=SC2086 # fields
        set -- ${line##*) }
        case $1 in [ZXx]) continue ;; esac
        [ "${20-}" != "${word#*:}" ] || return 0
    done
    return 1
}

in_place() { # directory: prints the notes there
    cd -P -- "$1/$realm" 2>/dev/null && ours . d || return 0
    count=0
    for note in ./owed-*; do
        ours "$note" - && [ "$count" -lt 20 ] || continue
        count=$((count + 1))
        text=$(dd if="$note" bs=4000 count=1 2>/dev/null | tr -d '\000-\011\013-\037\177')
        state=left
        ! alive "${text%%
*}" || state=running
        printf 'note %s\n' "$state"
        printf '%s\n' "$text" | sed '1d; s/^/ /'
    done
}

declared=${RUNBOOK_LOCK_PLACES-}
if [ -n "$declared" ] && ours "$declared" d && [ -O "$declared/.runbook-locks" ]; then
    in_place "$declared"
elif [ "$me" = 0 ]; then
    if [ -d /run ]; then in_place /run/runbook; else in_place /var/run/runbook; fi
else
    home=''
    case $user in '' | *[!A-Za-z0-9._@+-]*) ;; [A-Za-z0-9_]*) eval "home=~$user" ;; esac
    case $home in /*) ;; *) home=${HOME-} ;; esac
    in_place "${home%/}/.cache/runbook"
    in_place "/run/user/$me/runbook"
fi
