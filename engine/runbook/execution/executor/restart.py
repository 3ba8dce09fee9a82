"""Follow a host through a reboot: the connection is lost, and the host is back when it has another boot id."""

from __future__ import annotations

from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.errors import TransportError
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.polling import poll
from runbook.execution.executor.apply import SendResult
from runbook.execution.executor.host_lock import Lock
from runbook.execution.executor.owed import OwedRecord, OwedSettlement
from runbook.onhost.boot import ask_boot_id, read_boot_id
from runbook.values.event import Waiting
from runbook.values.plan import Restart
from runbook.values.playbook import Step
from runbook.values.result import Fault, Status, StepResult
from runbook.values.types import seconds

SIGNALS = 127
"""Exit codes above this value mean a signal (128 + n)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotBack:
    """The reason why a host has not come back with another boot id in time."""

    why: str
    reached: bool
    """Whether the host answers, still in its old boot."""


def objection(context: HostContext, step: Step, restart: Restart | None) -> str:
    """Return the reason why *restart* must not be sent; empty if it may."""
    if restart is None:
        return ""
    if step.on:
        return f"a host is not rebooted by `on`: run the playbook for {step.on} itself"
    if context.host.container:
        return "this is a container: the machine that it runs on is rebooted as a host of its own"
    if context.host.transport == "local":
        return "this is the machine that runbook runs on: it is not rebooted from here"
    return ""


def may_have_begun(done: SendResult) -> bool:
    """Whether the reboot may have begun: the command was sent, and no program has refused it.

    The shutdown may have ended the connection, or the command itself by a signal.
    """
    if not done.sent or done.status is Status.CANCELLED:
        return False
    code = done.commands[-1].exit_code if done.commands else None
    return not done.status.is_failure or code is None or code > SIGNALS


def wait_until_back(context: HostContext, restart: Restart, every: float) -> NotBack | None:
    """Connect repeatedly until the host has booted again; return None if it has.  Raises Cancelled."""
    words = f"waiting up to {seconds(restart.within)} for the host to come back from its reboot"
    context.run.emit(Waiting(host=context.host.name, why=words))
    pause = max(every, 0.1)
    context.clock.sleep(pause)
    within = restart.within - pause
    return poll(context, lambda: _connect(context, restart), lambda found: found is None, within=within, every=pause)


def _connect(context: HostContext, restart: Restart) -> NotBack | None:
    try:
        context.renew()
        (done,) = context.connection.run(ask_boot_id())
    except TransportError as error:
        return NotBack(why=str(error), reached=False)
    boot_id = read_boot_id(done)
    if boot_id and boot_id != restart.boot_id:
        return None
    return NotBack(
        why=f"it is still in boot {boot_id}" if boot_id else "it does not say which boot it is in", reached=True
    )


def not_back(plain: StepResult, restart: Restart, found: NotBack) -> StepResult:
    """Return the result of the step on a host that has not come back from its reboot."""
    time = seconds(restart.within)
    if found.reached:
        why = (
            f"the reboot was sent, but the host did not reboot within {time}: {found.why}; nothing is sent again: "
            "look at what keeps it up (systemctl list-jobs, processes in state D), then power-cycle it by its BMC"
        )
        return replace(plain, status=Status.FAILED, why=why, fault=Fault.COMMAND)
    why = (
        f"the reboot was sent, and the host was not back within {time} ({found.why}); nothing is sent again: "
        "look at its console, and power-cycle it by its BMC (ipmitool -H BMC chassis power cycle); it stays drained"
    )
    return replace(plain, status=Status.UNREACHABLE, why=why)


def settle_in(context: HostContext, step: Step, lock: Lock, owed: OwedRecord | OwedSettlement) -> str:
    """Restore the locks and notes that the reboot has removed, and forget which programs hang.

    Returns the reason if another run does not let this run continue; otherwise empty.  Raises TransportError and
    Cancelled.
    """
    context.hangs.forget()
    if busy := lock.renew(step.become):
        return f"the host has rebooted, but {busy.why}"
    owed.note_again()
    return ""
