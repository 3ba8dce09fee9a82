# Which scheduler this host has, and how it stands with it: $1 auto, slurm, kubernetes or none; $2 the node, empty: this
# host. Lines `KIND REST`: asked, kind, node, job, jobs-failed, mark (three: reason, who, when), unknown.
LC_ALL=C; export LC_ALL
kind=$1 node=$2
short=$(uname -n); short=${short%%.*}
echo "asked $short"
unknown() { printf 'unknown %s\n' "$*" | tr '\n' ' '; echo; exit 0; }
of_slurm() { # whether slurmd is set up here
    for it in /etc/slurm/slurm.conf /etc/slurm-llnl/slurm.conf /run/slurm/conf /etc/systemd/system/slurmd.service \
        /lib/systemd/system/slurmd.service /usr/lib/systemd/system/slurmd.service; do
        [ ! -e "$it" ] || return 0
    done
    return 1
}
of_kubernetes() { # whether a kubelet is set up here
    [ -e /var/lib/kubelet/config.yaml ] || [ -e /etc/kubernetes/kubelet.conf ] || [ -e /var/lib/kubelet/kubeconfig ]
}
can_kubectl() { # whether a kubectl here knows which cluster to ask
    command -v kubectl >/dev/null || return 1
    [ -n "${KUBECONFIG-}" ] || [ -e "${HOME:-/root}/.kube/config" ] || [ -e /etc/kubernetes/admin.conf ] || of_kubernetes
}

slurm() {
    command -v scontrol >/dev/null ||
        unknown 'Slurm: there is no scontrol in PATH; set PATH in `env` of the step, or name a host that has it in `on`'
    code=0
    printed=$(limited scontrol -o show node "${node:-$short}" 2>&1) || code=$?
    row=$(printf '%s\n' "$printed" | grep '^NodeName=')
    case $printed in
        *'not found'*)
            row=''
            if [ -z "$node" ]; then # it may be known by another name than its own
                row=$(limited scontrol -o show node 2>/dev/null | grep '^NodeName=' | grep -F " NodeHostName=$short ")
                [ "$(printf '%s\n' "$row" | wc -l)" -le 1 ] ||
                    unknown "Slurm has several nodes on $short: say which by \`node\`"
            fi
            if [ -z "$row" ] && [ "$kind" = auto ] && [ -z "$node" ] && ! of_slurm; then return 1; fi
            [ -n "$row" ] || unknown "Slurm has no node ${node:-$short}: say its name by \`node\`"
            ;;
        *) [ "$code" = 0 ] && [ -n "$row" ] || unknown "$(failed "$code" scontrol "$printed")" ;;
    esac
    name=${row#*NodeName=} name=${name%% *}
    echo 'kind slurm'
    printf '%s\n' "$row" | lines node
    command -v squeue >/dev/null || { echo 'jobs-failed there is no squeue in PATH'; return 0; }
    code=0
    jobs=$(limited squeue -h -w "$name" -o '%A %T %u' 2>&1) || code=$?
    if [ "$code" != 0 ]; then echo "jobs-failed $(failed "$code" squeue "$jobs")"; return 0; fi
    printf '%s\n' "$jobs" | grep '^[0-9]' | lines job
}

kubernetes() {
    command -v kubectl >/dev/null ||
        unknown 'Kubernetes: there is no kubectl here; name a host that has it in `on`, and the node in `node`'
    code=0
    row=$(limited kubectl get node "${node:-$short}" -o json --request-timeout=15s 2>&1) || code=$?
    if [ "$code" != 0 ]; then
        case $row in
            *NotFound*)
                if [ "$kind" = auto ] && [ -z "$node" ] && ! of_kubernetes; then return 1; fi
                unknown "Kubernetes has no node ${node:-$short}: say its name by \`node\`"
                ;;
        esac
        unknown "$(failed "$code" kubectl "$row")"
    fi
    echo 'kind kubernetes'
    printf '%s\n' "$row" | sed -n '/^{/,$p' | lines node
    name=${node:-$short} code=0
    jobs=$(limited kubectl get pods -A --no-headers --request-timeout=15s --field-selector "spec.nodeName=$name" -o \
        'custom-columns=S:.metadata.namespace,N:.metadata.name,O:.metadata.ownerReferences[0].kind,P:.status.phase' \
        2>&1) || code=$?
    if [ "$code" != 0 ]; then echo "jobs-failed $(failed "$code" kubectl "$jobs")"; return 0; fi
    printf '%s\n' "$jobs" | grep -v -e '^No resources found' -e '^$' | lines job
}

plain() {
    [ -z "$node" ] || [ "${node%%.*}" = "$short" ] ||
        unknown "no scheduler is found on $short, and $node is another host: say which scheduler by \`kind\`"
    echo 'kind none'
    notes=/var/lib/runbook
    ! lock_declared "${RUNBOOK_LOCK_PLACES-}" || notes=$RUNBOOK_LOCK_PLACES
    [ -d "$notes" ] || return 0
    safe_enter "$notes" && [ "$shared" = no ] || unknown "our mark cannot be looked for: $why"
    [ -e ./drained ] || return 0
    safe_stat ./drained && safe_ours "$uid" || unknown "$notes/drained is not a file of root"
    case $mode in -*) ;; *) unknown "$notes/drained is not a file" ;; esac
    [ -r ./drained ] || unknown "$notes/drained cannot be read by $(id -un)"
    head -n 3 ./drained | cut -c 1-300 | lines mark
}

case $kind in
    slurm) slurm; exit 0 ;;
    kubernetes) kubernetes; exit 0 ;;
    none) plain; exit 0 ;;
esac
if command -v scontrol >/dev/null || of_slurm; then slurm && exit 0; fi
if can_kubectl || of_kubernetes; then kubernetes && exit 0; fi
plain
