"""Drain a host for its scheduler, wait until its jobs have ended, and take back what we have drained ourselves.

The scheduler is found on the host that the step is sent to: Slurm where there is a scontrol that knows the node,
Kubernetes where there is a kubectl that does, else none; `kind` says so where that is not clear. A host without a
scheduler gets a mark of ours, `/var/lib/runbook/drained`, which your own scripts may respect, and which holds off no
job by itself.

A drain leaves a reason that begins with `runbook: `. What somebody else has drained is never resumed: the reason and
the user are inspected first, and once more right before. Jobs are never ended; pods are evicted only by `evict: true`.
A host is not resumed while it has fewer GPUs that respond than were expected after the last `reboot`, or while a reboot
that was sent has not come about.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Literal

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.smi_query import ask_gpus, ask_presence, read_gpus, read_presence
from runbook.library.scheduler.facts import steering
from runbook.library.scheduler.facts.model import OUR_REASON, Node, objection_to_reason
from runbook.library.scheduler.facts.query import NODE_NAME, ask_node, read_node
from runbook.onhost.boot import Boot, ask_boot, read_boot
from runbook.protocols import Fails, Holds, Probe
from runbook.text.shortened import first_few
from runbook.values.command import Command, Completed
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import Duration, Unknown, long_ago, plural, seconds
from runbook.values.undo import Undo, UndoStep

RECENT = 86400.0
"""Seconds for which a reboot that was sent, and has not come about, keeps a host drained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    do: Literal["", "drain", "resume"] = ""
    """drain: accept no new jobs, and wait for running ones; resume: end our own drain."""
    kind: Literal["auto", "slurm", "kubernetes", "none"] = "auto"
    """The scheduler; auto: found out on the host that the step is sent to."""
    node: str = ""
    """By which name the scheduler knows the host; empty: by that of the machine that is asked."""
    reason: str = ""
    """With drain: the reason, in a few words; `runbook: ` is put before it."""
    only: str = ""
    """With resume: only a drain of ours whose reason begins with these words."""
    wait: Duration = field(default=Duration(0), metadata={"minimum": 0, "maximum": 604800})
    """The time that jobs may take to end (drain), or the node to respond (resume)."""
    leave_jobs: bool = False
    """With drain: jobs that run are neither waited for nor asked about, and a node that is down keeps its reason."""
    evict: bool = False
    """With drain, for Kubernetes: `kubectl drain` evicts the pods (not those of DaemonSets)."""
    gpus: int | None = field(default=None, metadata={"minimum": 0})
    """With resume: only once so many GPUs respond; null: as many as were expected after the last `reboot`; 0: not
    inspected.
    """

    def __post_init__(self) -> None:
        if self.node and not NODE_NAME.fullmatch(self.node):
            raise ValueError(f"`node`: {self.node!r} is not the name of a node")
        for name, text in (("reason", self.reason), ("only", self.only)):
            if why := objection_to_reason(text):
                raise ValueError(f"`{name}`: {why}: {text!r}")
        if self.do == "drain" and not self.reason:
            raise ValueError("`do: drain` needs a `reason`, which is what other people will read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """The evidence that a drained host may take jobs again."""

    expected: int = 0
    """GPUs that have to respond; 0: not inspected."""
    responding: int | Unknown = 0
    """The number of GPUs that respond, on the bus and to nvidia-smi, and require no reset; 0: not inspected."""
    going_down: str = ""
    """The description of a reboot that was sent but has not happened; empty: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of the host by its scheduler."""

    kind: str | Unknown
    """slurm, kubernetes or none; unknown where no answer can be had."""
    node: str | Unknown
    """The name by which the scheduler knows the host."""
    state: str | Unknown
    """As the scheduler writes it, such as IDLE+DRAIN; none: empty."""
    drained: bool | Unknown
    """Whether it takes no new jobs because somebody said so."""
    ours: bool | Unknown
    """Whether it was drained by us, and for nothing but our reason."""
    reason: str | Unknown
    """The reason why it was drained."""
    by: str | Unknown
    """The user who drained it, where the scheduler says."""
    jobs: tuple[str, ...] | Unknown
    """The jobs (or pods) that are on it."""
    responds: bool | Unknown
    """Whether the scheduler hears from it."""
    whole: Node | Unknown
    """All that was read of it."""
    fitness: Fitness
    """With resume: expected and responding GPUs, and a reboot under way."""
    user: str = ""
    """The user as whom the step runs."""


def probe(args: Args) -> Probe[State]:
    """Ask the scheduler, and the GPUs where they count."""
    whoami = Command(argv=("id", "-un"), effect=ask_presence().effect)
    asked, who = yield (ask_node(args.kind, args.node), whoami)
    node, user = read_node(asked), who.stdout.strip()
    fitness = Fitness()
    if args.do == "resume" and not isinstance(node, Unknown) and node.drained:
        boot = read_boot((yield ask_boot())) if node.here else None
        fitness = _fitness(args, boot)
        if fitness.expected and node.here:
            presence, smi = yield (ask_presence(), ask_gpus())
            fitness = replace(fitness, responding=_gpus(presence, smi))
    if isinstance(node, Unknown):
        return State(
            kind=node, node=node, state=node, drained=node, ours=node, reason=node, by=node, jobs=node, responds=node,
            whole=node, fitness=fitness, user=user,
        )  # fmt: skip
    return State(
        kind=node.kind,
        node=node.name,
        state=node.state,
        drained=node.drained,
        ours=node.ours(("root", user)),
        reason=node.reason,
        by=node.by,
        jobs=node.jobs,
        responds=node.responds,
        whole=node,
        fitness=fitness,
        user=user,
    )


def _fitness(args: Args, boot: Boot | None) -> Fitness:
    last = boot.last if boot else None
    expected = args.gpus if args.gpus is not None else last.gpus if last else 0
    if boot is None or last is None or last.boot_id != boot.boot_id or last.ago > RECENT:
        return Fitness(expected=expected)
    words = f"a reboot was sent {long_ago(last.ago)} ago, and the host is still in the same boot"
    return Fitness(expected=expected, going_down=words)


def _gpus(presence: Completed, smi: Completed) -> int | Unknown:
    """Return the number of GPUs that respond, on the bus and to nvidia-smi."""
    try:
        seen = read_presence(presence)
        if seen.absent:
            return 0
        reading = read_gpus(smi)
    except ProbeError as error:
        return Unknown(why=str(error))
    responding = len(reading.gpus) - len([gpu for gpu in reading.gpus if gpu.requires_reset is True])
    return min(responding, len(seen.on_bus)) if seen.on_bus else responding


def decide(args: Args, state: State) -> Decision:
    """Drain what takes jobs, and resume what is ours."""
    node = state.whole
    if isinstance(node, Unknown):
        return Blocked(why=f"it is not known which scheduler the host has, or how it stands there: {node.why}")
    if args.do == "drain":
        return _drain(args, state, node)
    if args.do == "resume":
        return _resume(args, state, node)
    return NoChange(why="`do` asks for nothing")


def _drain(args: Args, state: State, node: Node) -> Decision:
    if args.leave_jobs and (node.drained or node.down):
        return NoChange(why=f"{node.name} is {node.whose()}")
    if isinstance(node.jobs, Unknown) and not args.leave_jobs:
        return Blocked(why=f"{node.name}: {node.jobs.why}")
    if node.drained and not node.jobs:
        return NoChange(why=f"{node.name} is {node.whose()}" + (", and no job is on it" if node.jobs_known else ""))
    if node.kind != "kubernetes" and state.user != "root":
        return Blocked(why=f"{node.name}: draining it needs root: give the step `become: true`")
    evicts = args.evict and node.kind == "kubernetes"
    words = (
        f"{node.name} is {node.whose()}: wait"
        if node.drained
        else f"drain {_called(node)}: {OUR_REASON}{args.reason}; wait"
    )
    commands = [steering.drain(node, OUR_REASON + args.reason, f"{state.user}@{node.asked_at}")]
    if evicts:
        commands.append(steering.evict(node, args.wait or 300.0))
        words = words.removesuffix("wait") + "evict its pods, and wait"
    return Change(
        summary=_waiting(words, args, node),
        commands=tuple(commands),
        targets=(_target(node),),
        risk=Risk.KILLS_PROCESSES if evicts else Risk.EDITS_FILES,
        patience=args.wait,
    )


def _waiting(words: str, args: Args, node: Node) -> str:
    if not node.jobs_known:
        return words.removesuffix("; wait") + " (a mark of ours; there is no scheduler that would hold off jobs)"
    jobs = () if isinstance(node.jobs, Unknown) or args.leave_jobs else node.jobs
    return f"{words} up to {seconds(args.wait)} for {first_few(jobs)}" if jobs else words.removesuffix("; wait")


def _resume(args: Args, state: State, node: Node) -> Decision:
    if not node.drained:
        return NoChange(why=f"{node.name} is not drained" + (f" ({node.state})" if node.state else ""))
    if not node.ours(("root", state.user)) or not node.reason.removeprefix(OUR_REASON).startswith(args.only):
        return NoChange(why=f"{node.name} stays {node.whose()}: that is not our drain" + _for(args))
    if node.kind != "kubernetes" and state.user != "root":
        return Blocked(why=f"{node.name}: resuming it needs root: give the step `become: true`")
    if node.obstacle:
        return Blocked(why=f"{node.name} stays drained: {node.obstacle} ({node.state})")
    if not node.responds and not args.wait:
        return Blocked(why=f"{node.name} stays drained: the scheduler does not hear from it ({node.state})")
    if why := _unproven(args, state, node):
        return Blocked(why=f"{node.name} stays drained: {why}")
    return Change(
        summary=f"resume {_called(node)}, {node.whose()}",
        commands=(steering.resume(node, args.only, args.wait),),
        targets=(_target(node),),
        risk=Risk.EDITS_FILES,
        patience=args.wait,
    )


def _for(args: Args) -> str:
    return f" for {args.only!r}" if args.only else ""


def _unproven(args: Args, state: State, node: Node) -> str:
    """Return the reason why the host is not proven to be fit; empty: it is, or no proof was requested."""
    fit = state.fitness
    if fit.going_down or not fit.expected:
        return fit.going_down
    if not node.here:
        return f"its GPUs cannot be inspected from {node.asked_at}; leave `gpus` out, and prove them by a step before"
    if isinstance(fit.responding, Unknown):
        return f"its GPUs are not known to respond ({fit.responding.why})"
    return "" if fit.responding >= fit.expected else f"{fit.responding} of {plural(fit.expected, 'GPU')} respond"


def latent(args: Args) -> Change:
    """Return the change that it would make at its turn, on a host that does not call for it now."""
    node = Node(kind="slurm" if args.kind == "auto" else args.kind, name=args.node or "this host")
    if args.do == "resume":
        words, commands = "resume it, if the drain is ours", (steering.resume(node, args.only, args.wait),)
        words += f" and {plural(args.gpus, 'GPU')} respond" if args.gpus else ""
    else:
        words, commands = f"drain it: {OUR_REASON}{args.reason}", (steering.drain(node, OUR_REASON + args.reason, ""),)
    return Change(summary=words, commands=commands, risk=Risk.EDITS_FILES)


def reach(args: Args, state: State) -> tuple[Target, ...]:
    """Return what the action affects: the node."""
    return () if isinstance(state.whole, Unknown) else (_target(state.whole),)


def settled(args: Args, before: State, after: State) -> bool:
    """It is drained and without jobs; or it is drained no more."""
    return not explain(args, before, after)


def explain(args: Args, before: State, after: State) -> str:
    """Describe what the second probe still finds; with ``leave_jobs`` also a drain by somebody who came before us."""
    unsettled, node = _unsettled(args, after), after.whole
    if unsettled or args.do != "drain" or not args.leave_jobs or isinstance(node, Unknown):
        return unsettled
    return (
        "" if node.reason.startswith(OUR_REASON) else f"{node.name} takes no jobs, but not by us: it is {node.whose()}"
    )


def _unsettled(args: Args, after: State) -> str:
    node = after.whole
    if isinstance(node, Unknown):
        return f"the scheduler was asked again, and it is not known how the host stands: {node.why}"
    if args.do == "resume":
        return f"{node.name} was resumed, but is still {node.whose()}" if node.drained else ""
    if not node.drained:
        return f"{node.name} was drained, but takes jobs ({node.state})"
    if args.leave_jobs:
        return ""
    if isinstance(node.jobs, Unknown):
        return f"{node.name} is drained, but {node.jobs.why}"
    if not node.jobs:
        return ""
    return (
        f"{node.name} is drained and takes no new jobs, but after {seconds(args.wait)} {first_few(node.jobs)} "
        f"{'is' if len(node.jobs) == 1 else 'are'} still there; "
        "wait longer (`wait`), or ask whose they are to end them"
    )


def undo(args: Args, state: State, change: Change) -> Undo:
    """A drain by a resume of that drain; a resume stays."""
    if args.do == "drain" and state.drained is True:
        return Undo(stays=("it was drained before, by this tool or by somebody else",))
    if args.do != "drain" or isinstance(state.whole, Unknown):
        return Undo(stays=("what was resumed is drained again by `runbook run node-drain`",))
    back = {"do": "resume", "kind": state.whole.kind, "node": state.whole.name, "only": args.reason}
    return Undo(parts=(UndoStep(action="scheduler", args=back, say=f"resume {state.whole.name}"),))


def holds(args: Args, state: State) -> Holds | Fails:
    """It is drained and without jobs; with resume, or nothing: it takes jobs."""
    node = state.whole
    if isinstance(node, Unknown):
        return Fails(why=node.why)
    if args.do == "drain":
        return Fails(why=why) if (why := _unsettled(args, state)) else Holds(why=f"{node.name} is {node.whose()}")
    if node.drained or not node.responds or node.obstacle:
        return Fails(
            why=f"{node.name} takes no jobs: {node.obstacle or (node.whose() if node.drained else node.state)}"
        )
    return Holds(why=f"{node.name} takes jobs" + (f" ({node.state})" if node.state else ""))


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    node = args.node or "NODE"
    why = f'"{OUR_REASON}{args.reason}"'
    lines = {
        ("slurm", "drain"): (f"scontrol update NodeName={node} State=DRAIN Reason={why}", f"squeue -w {node}"),
        ("slurm", "resume"): (f"scontrol show node {node}", f"scontrol update NodeName={node} State=RESUME"),
        ("kubernetes", "drain"): (f"kubectl annotate node {node} runbook/drained={why}", f"kubectl cordon {node}"),
        ("kubernetes", "resume"): (f"kubectl describe node {node}", f"kubectl uncordon {node}"),
        ("none", "drain"): (f"echo {why} >/var/lib/runbook/drained",),
        ("none", "resume"): ("cat /var/lib/runbook/drained", "rm /var/lib/runbook/drained"),
    }
    return lines.get(("slurm" if args.kind == "auto" else args.kind, args.do), (f"scontrol show node {node}",))


def _called(node: Node) -> str:
    return {"slurm": "Slurm node", "kubernetes": "Kubernetes node", "none": "host"}[node.kind] + f" {node.name}"


def _target(node: Node) -> Target:
    return Target(kind="host", key=f"node:{node.kind}:{node.name}", say=node.name)
