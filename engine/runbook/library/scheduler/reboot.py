"""Reboot a drained host once, wait until it is back in another boot, and count its GPUs.

The host is back when it answers with another boot id (`/proc/sys/kernel/random/boot_id`): one that answers with the
same id has not rebooted, and one that does not answer within `within` is unreachable. The reboot is sent once. Its time
and the boot that it was to end are kept in `/var/lib/runbook/rebooted` on the host, so that no run, of whichever
machine, sends a second one into the same boot, or sooner than `not_again_within` after the last: that takes a person,
who says `again: true`.

It is not sent before the host is drained (see `scheduler`), nor while an ordinary user's process lives there or a
process holds a GPU. `systemctl reboot` is used where systemd runs the host, else `reboot`. A shutdown that hangs is
forced only with `force_after`.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Literal

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.device_users import ask_users, read_users
from runbook.library.gpu.facts.model import GpuPresence
from runbook.library.gpu.facts.smi_query import ask_gpus, ask_presence, read_gpus, read_presence
from runbook.library.processes.facts.bystanders import bystanders
from runbook.library.processes.facts.table import ask_processes, read_processes
from runbook.library.scheduler.facts.query import NODE_NAME, ask_node, read_node
from runbook.onhost.boot import LastReboot, ask_boot, read_boot, send_reboot
from runbook.protocols import Probe
from runbook.text.shortened import first_few
from runbook.values.command import Command, Completed
from runbook.values.plan import Blocked, Change, Decision, Restart, Risk, Target
from runbook.values.types import Duration, Unknown, long_ago, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    reason: str = ""
    """The reason in a few words; it is kept on the host for anybody who asks why it was rebooted."""
    drain: Literal["required", "elsewhere", "none"] = "required"
    """required: the host must be drained (by its scheduler or by runbook's mark) and have no jobs left; elsewhere: an
    earlier step drains it from another host; none: reboot without a drain.
    """
    kind: Literal["auto", "slurm", "kubernetes", "none"] = "auto"
    """The scheduler, as in `scheduler`."""
    node: str = ""
    """The name of the host in the scheduler; empty: its own name."""
    within: Duration = field(default=Duration(900), metadata={"minimum": 1, "maximum": 86400})
    """The time within which the host must be back."""
    expect_gpus: int | None = field(default=None, metadata={"minimum": 0})
    """The number of GPUs that must respond afterwards; null: the number that the bus shows before."""
    gpus_within: Duration = field(default=Duration(300), metadata={"minimum": 0, "maximum": 86400})
    """The time that the GPUs may take to respond after the host is back."""
    allow_processes: bool = False
    """Reboot even if processes of ordinary users are running, or a process holds a GPU."""
    not_again_within: Duration = field(default=Duration(86400), metadata={"minimum": 0})
    """Send no second reboot within this time after the last reboot by runbook."""
    again: bool = False
    """Allow a second reboot, because a person has inspected the host."""
    force_after: Duration = field(default=Duration(0), metadata={"minimum": 0, "maximum": 86400})
    """Force a shutdown that hangs for this time (`systemctl reboot --force`: services are not stopped); 0: never."""

    def __post_init__(self) -> None:
        if self.node and not NODE_NAME.fullmatch(self.node):
            raise ValueError(f"`node`: {self.node!r} is not the name of a node")
        if not self.reason.isprintable() or len(self.reason) > 200:
            raise ValueError("`reason` must be one line of at most 200 characters")
        if self.force_after and self.force_after >= self.within:
            raise ValueError("`force_after` must be less than `within`, or the forced reboot is not waited for")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The present boot of the host, and the obstacles to a reboot."""

    boot_id: str
    """The id that the kernel created for this boot."""
    up: float
    """Seconds since the host was booted."""
    drained: bool | Unknown
    """Whether the host is drained, according to the scheduler or to runbook's own mark."""
    scheduler: str
    """The state of the host in its scheduler, in words."""
    jobs: tuple[str, ...] | Unknown
    """The jobs on the host."""
    busy: tuple[str, ...] | Unknown
    """Processes of ordinary users, and processes that hold a GPU."""
    on_bus: int
    """The number of NVIDIA GPUs on the PCI bus."""
    gpus: int | Unknown
    """The number of GPUs that respond to nvidia-smi; read only after a reboot by runbook, otherwise unknown."""
    container: bool
    """Whether the host is a container."""
    stopping: bool
    """Whether the host is being shut down."""
    root: bool
    """Whether the step runs as root."""
    last: LastReboot | None
    """The last reboot of this host by runbook: boot_id, ago, gpus, words."""
    forbidden: tuple[str, ...] = ()
    """The obstacles to a reboot now that a drain would not remove."""


def probe(args: Args) -> Probe[State]:
    """Read the boot, the scheduler and the processes; the driver is queried only after a reboot by runbook."""
    first, presence = yield (ask_boot(), ask_presence())
    boot, seen = read_boot(first), read_presence(presence)
    rebooted = boot.last is not None and boot.last.boot_id != boot.boot_id
    asks: list[Command] = [ask_processes(), ask_users()]
    if args.drain == "required":
        asks.append(ask_node(args.kind, args.node))
    if rebooted and not seen.absent:
        asks.append(ask_gpus())
    processes, users, *more = yield tuple(asks)
    node = read_node(more[0]) if args.drain == "required" else Unknown(why="not asked for")
    gpus: int | Unknown = 0 if seen.absent else Unknown(why="the driver is asked after a reboot")
    if rebooted and not seen.absent:
        gpus = _responding(more[-1])
    state = State(
        boot_id=boot.boot_id,
        up=boot.up,
        drained=node if isinstance(node, Unknown) else node.drained,
        scheduler=node.why
        if isinstance(node, Unknown)
        else node.whose()
        if node.drained
        else node.state or "not drained",
        jobs=node if isinstance(node, Unknown) else node.jobs,
        busy=_busy(processes, users, seen),
        on_bus=seen.pci,
        gpus=gpus,
        container=boot.container,
        stopping=boot.stopping,
        root=boot.root,
        last=boot.last,
    )
    return replace(state, forbidden=tuple(_never(args, state)))


def _responding(done: Completed) -> int | Unknown:
    try:
        return len([gpu for gpu in read_gpus(done).gpus if gpu.requires_reset is not True])
    except ProbeError as error:
        return Unknown(why=str(error))


def _busy(processes: Completed, users: Completed, seen: GpuPresence) -> tuple[str, ...] | Unknown:
    """Return the processes that a reboot would end and that do not belong to the system."""
    try:
        table = read_processes(processes)
    except ProbeError as error:
        return Unknown(why=str(error))
    found = bystanders(table)
    if isinstance(found, Unknown) or seen.absent:
        return found
    holders = read_users(users, seen).at_work()
    if isinstance(holders, Unknown):
        return found or holders
    return tuple(dict.fromkeys((*found, *holders)))


def decide(args: Args, state: State) -> Decision:
    """Reboot the host unless there are obstacles; all obstacles are reported together."""
    waiting, change = _not_yet(args, state), _change(args, state)
    if state.forbidden or waiting:
        return Blocked(why="; ".join([*state.forbidden, *waiting]), then=change, clears=not state.forbidden)
    return change


def _never(args: Args, state: State) -> list[str]:
    """Return the obstacles that no earlier step of a playbook removes."""
    found = [] if state.root else ["a reboot needs root: give the step `become: true`"]
    if state.container:
        found.append("this host is a container, which cannot be rebooted from within: restart it where it was started")
    if state.stopping:
        found.append("the host is being shut down already")
    if args.drain == "required" and isinstance(state.drained, Unknown):
        found.append(f"it is not known whether the host is drained: {state.drained.why}")
    if isinstance(state.busy, Unknown) and not args.allow_processes:
        found.append(f"it is not known who works on the host: {state.busy.why}")
    return [*found, *_second(args, state)]


def _second(args: Args, state: State) -> list[str]:
    """Return the reasons why this would be a second reboot too soon; none if it would not."""
    last = state.last
    if last is None or args.again:
        return []
    when = f"{long_ago(last.ago)} ago" + (f" ({last.words})" if last.words else "")
    if last.boot_id == state.boot_id:
        return [
            f"a reboot was sent {when}, and the host is still in the same boot: look at its console "
            "(`systemctl list-jobs`, processes in state D), and power-cycle it by its BMC if need be; "
            "`again: true` sends another reboot"
        ]
    if last.ago < args.not_again_within:
        return [f"the host was rebooted {when}: find out why that was not enough; `again: true` reboots it once more"]
    return []


def _not_yet(args: Args, state: State) -> list[str]:
    """Return the obstacles that an earlier step may still remove."""
    found = []
    if args.drain == "required":
        if state.drained is False:
            found.append(f"the host is not drained ({state.scheduler})")
        if isinstance(state.jobs, Unknown) and not isinstance(state.drained, Unknown):
            found.append(f"it is not known which jobs are on the host: {state.jobs.why}")
        elif state.jobs and not isinstance(state.jobs, Unknown):
            found.append(f"jobs are on the host: {first_few(state.jobs)}")
    if not isinstance(state.busy, Unknown) and state.busy and not args.allow_processes:
        found.append(f"{plural(len(state.busy), 'process', 'processes')} would be ended: {first_few(state.busy)}")
    return found


def _change(args: Args, state: State) -> Change:
    expected = _expected(args, state)
    boot = f"boot {state.boot_id[:8]}"
    words = f"reboot the host ({boot}, up {long_ago(state.up)}), and expect {plural(expected, 'GPU')} afterwards"
    return Change(
        summary=words + (f"; forced if it hangs for {long_ago(args.force_after)}" if args.force_after else ""),
        commands=(send_reboot(state.boot_id, args.reason, expected, args.force_after),),
        targets=(Target(kind="host", key=f"boot:{state.boot_id}", say=boot),),
        risk=Risk.REBOOTS,
        patience=args.gpus_within,
        restart=Restart(boot_id=state.boot_id, within=args.within),
    )


def _expected(args: Args, state: State) -> int:
    return state.on_bus if args.expect_gpus is None else args.expect_gpus


def reach(args: Args, state: State) -> tuple[Target, ...]:
    """Return what the action affects: the boot that it ends."""
    return _change(args, state).targets


def settled(args: Args, before: State, after: State) -> bool:
    """Whether the host is in another boot and its GPUs respond."""
    return not _unsettled(args, before, after)


def explain(args: Args, before: State, after: State) -> str:
    """Describe what the second probe still finds."""
    return _unsettled(args, before, after)


def _unsettled(args: Args, before: State, after: State) -> str:
    if after.boot_id == before.boot_id:
        return f"the host did not reboot: it is still in boot {before.boot_id}"
    expected, back = _expected(args, before), f"the host has rebooted (up {long_ago(after.up)}), but "
    if after.on_bus < expected:
        return f"{back}only {after.on_bus} of {plural(expected, 'GPU')} are on the PCI bus"
    if isinstance(after.gpus, Unknown):
        return f"{back}its GPUs do not respond: {after.gpus.why}"
    return f"{back}only {after.gpus} of {plural(expected, 'GPU')} respond" if after.gpus < expected else ""


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    return (
        "cat /proc/sys/kernel/random/boot_id; lspci -d 10de: | grep -ci -e vga -e 3d",
        "systemctl reboot",
        "# once it is back: the first line again (another id, as many GPUs), and nvidia-smi -L",
    )
