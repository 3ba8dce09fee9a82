# Drain a node, or take our own drain back: $1 drain, resume or evict; $2 slurm, kubernetes or none; $3 the node;
# $4 the reason (drain), or how it has to begin (resume); $5 who (drain); $6 seconds that a node may
# take until it responds (resume). Whose drain it is gets checked right before it is taken back. Exit code 10: somebody
# else's, nothing was done; 11: it does not respond; 12: refused.
LC_ALL=C; export LC_ALL
verb=$1 kind=$2 node=$3 reason=$4 who=$5 most=$6
limited() { if command -v timeout >/dev/null; then timeout 60 "$@" </dev/null 2>&1; else "$@" </dev/null 2>&1; fi; }
run() { printed=$(limited "$@") || die 12 "${1##*/} refused it (exit code $?): $(printf %s "$printed" | head -n 1 | cut -c 1-300)"; }
ours() { # the reason in force: whether it is ours alone, and begins as asked
    case $1 in *';'* | *'|'* | *'&'*) die 10 "$node is drained for more than our reason: $1" ;; esac
    case $1 in "runbook: $reason"*) ;; *) die 10 "$node was not drained by us for this: ${1:-no reason given}" ;; esac
}

slurm_row() { # sets row, state, why and by
    printed=$(limited scontrol -o show node "$node") || :
    row=$(printf '%s\n' "$printed" | grep '^NodeName=')
    [ -n "$row" ] || die 12 "scontrol shows no node $node: $(printf %s "$printed" | head -n 1 | cut -c 1-300)"
    state=${row%% Reason=*} state=${state#* State=} state=${state%% *} why='' by=''
    case $row in
        *' Reason='*)
            why=${row##* Reason=}
            by=${why##* [} by=${by%%@*} why=${why%" [$by@"*}
            ;;
    esac
}

slurm() {
    slurm_row
    if [ "$verb" = drain ]; then
        case $state in *DRAIN*) exit 0 ;; esac # anybody who drained it, its reason stays
        run scontrol update "NodeName=$node" State=DRAIN "Reason=$reason"
        exit 0
    fi
    waited=0
    while case $state in *NOT_RESPONDING* | *NO_RESPOND* | *'*'*) true ;; *) false ;; esac; do
        [ "$waited" -lt "$most" ] || die 11 "slurmd on $node does not respond ($state), so that it stays drained"
        sleep 2
        waited=$((waited + 2))
        slurm_row
    done
    case $state in *DRAIN*) ;; *) exit 0 ;; esac
    ours "$why"
    case $by in "$(id -un)" | root) ;; *) die 10 "$node was drained by $by in words like ours: $why" ;; esac
    run scontrol update "NodeName=$node" State=RESUME
}

kubernetes() {
    mark=$(limited kubectl get node "$node" -o 'jsonpath={.spec.unschedulable}|{.metadata.annotations.runbook/drained}') ||
        die 12 "kubectl failed: $(printf %s "$mark" | head -n 1 | cut -c 1-300)"
    case $verb in
        drain)
            case $mark in true*) exit 0 ;; esac
            run kubectl annotate node "$node" --overwrite "runbook/drained=$reason"
            run kubectl cordon "$node"
            ;;
        evict)
            printed=$(timeout "$most" kubectl drain "$node" --ignore-daemonsets "--timeout=${most}s" </dev/null 2>&1) ||
                die 12 "kubectl drain: $(printf %s "$printed" | grep -i -m 1 -e error -e cannot | cut -c 1-300)"
            ;;
        resume)
            case $mark in true*) ;; *) exit 0 ;; esac
            ours "${mark#*|}"
            run kubectl uncordon "$node"
            run kubectl annotate node "$node" runbook/drained-
            ;;
    esac
}

plain() {
    umask 077
    work=''
    trap '[ -z "$work" ] || rm -rf -- "./$work"' EXIT
    notes=/var/lib/runbook
    ! lock_declared "${RUNBOOK_LOCK_PLACES-}" || notes=$RUNBOOK_LOCK_PLACES
    safe_make_all "$notes" 700 || die 12 "$why"
    [ "$shared" = no ] || die 12 "$notes can be written to by others"
    if [ "$verb" = drain ]; then
        [ ! -e ./drained ] || exit 0
        safe_workshop || die 12 "$why"
        printf '%s\n%s\n%s\n' "$reason" "$who" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >"./$work/drained" ||
            die 12 "there is no room in $notes"
        safe_put "./$work/drained" drained || die 12 "$why"
        sync . 2>/dev/null
        exit 0
    fi
    [ -e ./drained ] || exit 0
    safe_stat ./drained && [ "$uid" = "$safe_me" ] || die 10 "$notes/drained is not a file of this user"
    ours "$(head -n 1 ./drained)"
    rm -f -- ./drained
}

case $kind in
    slurm) slurm ;;
    kubernetes) kubernetes ;;
    none) plain ;;
    *) die 12 "there is no scheduler $kind" ;;
esac
exit 0
