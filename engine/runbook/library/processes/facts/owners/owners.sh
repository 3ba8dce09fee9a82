# What owners of processes can be asked on the host; changes nothing. Each argument is one question: `pid:N` (its Slurm
# job by its environment, and its listening ports), `job:N`, `unit:NAME`, `user:UID:NAME` (a unit of a user's manager) and
# `box:ID` (a container). Lines: `env PID JOB`, `dark PID`, `listen PID PORT`, `tty NUMBER SECONDS`, `listed PID JOB`,
# `job N STATE`, `unit ARGUMENT STATE`, `box ID STATE NAME POD`, `failed ARGUMENT WHY`, and `asked` at the end.
LC_ALL=C; export LC_ALL
xargs=$(command -v xargs) || { echo 'xargs was not found' >&2; exit 3; }
limited() { if command -v timeout >/dev/null; then timeout 10 "$@" </dev/null; else "$@" </dev/null; fi; }
first_line() { printf '%s\n' "$1" | sed -n 's/[[:cntrl:]]//g; /./{p;q;}' | cut -c 1-200; }
silent=' ' # who gave no answer once, and is not waited for again
is_silent() { case $silent in *" $1 "*) return 0 ;; esac; return 1; }
failed() { # argument, program, exit code, what it printed
    [ "$3" != 124 ] || { echo "failed $1 $2 gave no answer within 10 s"; return; }
    words=$(first_line "$4")
    [ "$3" != 0 ] || { echo "failed $1 $2 answered ${words:-nothing}, which is not what it was asked for"; return; }
    echo "failed $1 $2 failed (exit code $3)${words:+: $words}"
}
pids='' jobs=' '
for one; do case $one in pid:*) pids="$pids ${one#pid:}" ;; job:*) jobs="$jobs${one#job:} " ;; esac; done
places() { for pid in $pids; do printf '/proc/%s/%s\n' "$pid" "$1"; done; }
of_slurm() { # whether this host, or this container, has anything to do with Slurm
    command -v squeue >/dev/null || [ -e /etc/slurm/slurm.conf ] || [ -e /run/slurm/conf ] || [ -e /etc/slurm-llnl/slurm.conf ]
}
for pid in $pids; do [ -r "/proc/$pid/environ" ] || [ ! -d "/proc/$pid" ] || echo "dark $pid"; done
pattern='SLURM_JOB_\{0,1\}ID=[0-9]\{1,10\}'
claimed() { # what processes have in their environment, as grep prints it: FILE:SLURM_JOB_ID=N
    [ -n "$pids" ] || return 0
    if printf 'a\0b=1\n' | grep -qa 'b=1'; then
        places environ | "$xargs" -n 500 grep -saoH "$pattern" 2>/dev/null
    else # this grep reads no further than the first variable
        for pid in $pids; do
            { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | grep -o "$pattern" | sed "s|^|/proc/$pid/environ:|"
        done
    fi
}
claims=$(claimed | sed -n 's|^/proc/\([0-9]*\)/environ:SLURM_JOB_\{0,1\}ID=\([0-9]*\)$|env \1 \2|p' | sort -u |
    awk 'many[$2]++ < 2') # nobody's environment fills the list
[ -z "$claims" ] || printf '%s\n' "$claims"
for job in $(printf '%s\n' "$claims" | cut -d ' ' -f 3 | sort -un); do
    case $jobs in *" $job "*) ;; *) jobs="$jobs$job " ;; esac
done

listening() { # the ports that processes listen on, but those that the kernel chose for them
    IFS=' 	' read -r low high </proc/sys/net/ipv4/ip_local_port_range 2>/dev/null || low=32768 high=60999
    q=q; ls -q / >/dev/null 2>&1 || q=
    {
        places ns/net | "$xargs" -n 500 ls -ln$q 2>/dev/null | sed -n 's|.* /proc/\([0-9]*\)/ns/net -> \(.*\)|net \1 \2|p'
        places fd | "$xargs" -n 500 ls -ln$q /proc/self/fd 2>/dev/null
    } | awk -v low="$low" -v high="$high" '
        function hex(text,    i, n) { for (i = 1; i <= length(text); i++) n = n * 16 + index("0123456789ABCDEF", substr(text, i, 1)) - 1; return n }
        function sockets(file, net,    l, w, p) {
            while ((getline l < file) > 0) {
                split(l, w); if (w[4] != "0A") continue
                p = hex(substr(w[2], length(w[2]) - 3))
                if (p < low || p > high) port[net, w[10]] = p
            }
            close(file)
        }
        $1 == "net" {
            of[$2] = $3
            if (!($3 in read)) { read[$3]; sockets("/proc/" $2 "/net/tcp", $3); sockets("/proc/" $2 "/net/tcp6", $3) }
            next
        }
        /^\/proc\/[0-9]+\/fd:$/ { split($0, w, "/"); at = w[3]; next }
        /^\/proc\// { at = ""; next }
        at != "" && / -> socket:\[[0-9]+\]$/ {
            inode = $0; sub(/.*\[/, "", inode); sub(/\]$/, "", inode)
            if ((of[at], inode) in port && !((at, port[of[at], inode]) in said)) {
                said[at, port[of[at], inode]]; print "listen", at, port[of[at], inode]
            }
        }'
}
[ -z "$pids" ] || listening

terminals() { # for how many seconds nobody has typed into each terminal
    now=$(date +%s) || return 0
    for each in /dev/pts/[0-9]*; do
        at=$(stat -c %X "$each" 2>/dev/null) && echo "tty $each $((now - at))"
    done
}
case " $* " in *' ttys '*) terminals ;; esac

if command -v scontrol >/dev/null && [ -n "$pids" ]; then
    code=0
    said=$(limited scontrol listpids 2>&1) || code=$?
    # the whole answer is its table, or that there is none; `whole` says that it was
    listed=$(printf '%s\n' "$said" | awk -v code="$code" '
        NF == 0 || bad { next }
        $1 == "PID" && $2 == "JOBID" && $3 == "STEPID" { head = 1; next }
        code == 0 && NF == 5 && $1 ~ /^-?[0-9]+$/ && $2 ~ /^[0-9]+$/ && $4 $5 ~ /^[-0-9]+$/ { if ($1 > 1) print "listed", $1, $2; next }
        code != 0 && /^(scontrol: error: )?No job steps exist on this node\.?$/ { none = 1; next }
        { bad = 1 }
        END { if (!bad && (code == 0 ? head : none)) print "whole" }')
    case $listed in
        *whole)
            listed=${listed%whole}
            printf '%s' "$listed"
            for job in $(printf '%s' "$listed" | cut -d ' ' -f 3 | sort -u); do
                case $jobs in *" $job "*) ;; *) jobs="$jobs$job " ;; esac
            done ;;
        *) failed slurmd 'scontrol listpids' "$code" "$(printf '%s\n' "$said" | sed '/^PID  *JOBID /d')" ;;
    esac
fi
count=0
for job in $jobs; do
    count=$((count + 1))
    if [ "$count" -gt 256 ]; then echo "failed job:$job more than 256 jobs would have to be asked for"; continue; fi
    command -v squeue >/dev/null || { echo "failed job:$job there is no squeue here to ask whether it still runs"; continue; }
    if is_silent squeue; then failed "job:$job" squeue 124 ''; continue; fi
    code=0
    said=$(limited squeue -h -a -t all -j "$job" -o '%A %i %T' 2>&1) || code=$?
    [ "$code" != 124 ] || silent="${silent}squeue "
    # every line is one of this job (%A), of a task of this array (`N_4`) or of a part of this job (`N+1`): `squeue(1)`, %i
    state=$(printf '%s\n' "$said" | awk -v job="$job" -v code="$code" '
        NF == 0 { next }
        code == 0 && NF == 3 && $1 ~ /^[0-9]+$/ && $3 ~ /^[A-Z_]+$/ && ($1 == job || index($2, job "_") == 1 || index($2, job "+") == 1) { print $3; next }
        code != 0 && /^(squeue: error: )?(slurm_load_jobs error: )?Invalid job id specified$/ { print "GONE"; next }
        { print "?" }' | sort -u | tr '\n' ' ')
    case $state in
        '' | *'?'*) failed "job:$job" squeue "$code" "$said" ;;
        *) echo "job $job $state" ;;
    esac
done
! of_slurm || echo slurm

manager() { # the unit, the argument that asks for it, whose manager; then arguments of systemctl before `show`
    unit=$1 argument=$2 whose=$3; shift 3
    if is_silent "$whose"; then failed "$argument" systemctl 124 ''; return; fi
    command -v systemctl >/dev/null || { echo "failed $argument there is no systemctl here to ask for it"; return; }
    code=0
    said=$(limited systemctl "$@" show -p ActiveState -- "$unit" 2>&1) || code=$?
    [ "$code" != 124 ] || silent="$silent$whose "
    case $code:$said in
        0:ActiveState=[a-z]*) echo "unit $argument $(first_line "${said#ActiveState=}")" ;;
        *) failed "$argument" systemctl "$code" "$said" ;;
    esac
}
box() { # a container, by whichever engine knows it
    why="no container engine here knows it"
    for engine in docker podman; do
        command -v $engine >/dev/null && [ -s "$(command -v $engine)" ] || continue
        if is_silent $engine; then why="$engine gave no answer within 10 s"; continue; fi
        code=0
        said=$(limited $engine inspect --type container -f '{{.State.Status}} {{.Name}} {{index .Config.Labels "io.kubernetes.pod.name"}}' "$1" 2>&1) || code=$?
        [ "$code" != 124 ] || silent="$silent$engine "
        case $code:$said in
            0:[a-z]*) echo "box $1 $(first_line "$said")"; return ;;
            *[Nn]'o such '*) ;;
            *) why=$(failed x $engine "$code" "$said"); why=${why#failed x } ;;
        esac
    done
    if command -v crictl >/dev/null && ! is_silent crictl; then
        code=0
        said=$(limited crictl inspect -o go-template --template '{{.status.state}} {{.status.metadata.name}} {{index .status.labels "io.kubernetes.pod.name"}}' "$1" 2>&1) || code=$?
        [ "$code" != 124 ] || silent="${silent}crictl "
        case $code:$said in
            0:CONTAINER_*) echo "box $1 $(first_line "$said")"; return ;;
            *[Nn]'ot found'*) ;;
            *) why=$(failed x crictl "$code" "$said"); why=${why#failed x } ;;
        esac
    fi
    echo "failed box:$1 $why"
}
users=0
for one; do
    case $one in
        user:*)
            users=$((users + 1))
            if [ "$users" -gt 64 ]; then echo "failed $one more than 64 services of users would have to be asked for"; continue; fi ;;
    esac
    case $one in
        unit:*) manager "${one#unit:}" "$one" systemctl ;;
        user:*) rest=${one#user:}; manager "${rest#*:}" "$one" "user:${rest%%:*}" --user "--machine=${rest%%:*}@.host" ;;
        box:*) box "${one#box:}" ;;
    esac
done
echo asked
