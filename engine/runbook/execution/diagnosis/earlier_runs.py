"""Continue earlier runs: do not repeat their finished changes, and do not repeat a change with an unknown outcome
blindly.
"""

from __future__ import annotations

from collections.abc import Sequence

from runbook.execution.diagnosis.gates import is_cleanup
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.verdicts import sent
from runbook.secrets.names import MASK
from runbook.values.earlier_change import EarlierChange, item_text, own_change
from runbook.values.plan import Blocked, Change, Decision, NoChange
from runbook.values.playbook import Step, place_in_each, written_id
from runbook.values.result import StepResult
from runbook.values.types import Json

NO_RECORD = "what is fetched from a host is kept in the record of the run, and this run has none: leave out --no-record"


def continued(
    context: HostContext,
    step: Step,
    item: Json,
    decision: Decision,
    results: Sequence[StepResult] = (),
    equal: Sequence[int] = (),
) -> Decision:
    """Return *decision*; or another decision, if an earlier run has already sent this change to the host.

    *results*: the results of this run so far.  If this run has sent a step that *step* names in ``if_changed`` or
    ``if_failed``, *decision* is kept, because the probe has just checked the current state.
    *equal*: see ``equal_items``.
    """
    again = follows_again(step, {written_id(result.id) for result in results if sent(result)})
    return permitted(context, decision if again else _decision_after(context, step, item, decision, equal))


def permitted(context: HostContext, decision: Decision) -> Decision:
    """Return *decision*; or Blocked, if a limit over several runs forbids the change or no record can keep its
    files.
    """
    if isinstance(decision, Change) and (why := context.refusal()):
        return Blocked(why=why)
    if (
        isinstance(decision, Change)
        and context.run.files is None
        and any(command.keep for command in decision.commands)
    ):
        return Blocked(why=NO_RECORD)
    return decision


def _decision_after(context: HostContext, step: Step, item: Json, decision: Decision, equal: Sequence[int]) -> Decision:
    """Return *decision*; or another decision, if a run that this run continues has already sent the change."""
    earlier = _earlier_change(context, step, item, equal)
    repeats = step.id in context.run.repeats or written_id(step.id) in context.run.repeats
    if earlier is None or repeats:
        return decision
    if earlier.boot_id and (settled := _rebooted(step, earlier, decision)):
        return settled
    if not isinstance(decision, Change):
        return decision
    name = written_id(step.id)
    if earlier.assumed and not decision.verifiable:
        return NoChange(why=f"--assume-done {name}: taken as done; run {earlier.run} sent it at {earlier.at}")
    if earlier.done and not decision.verifiable:
        return NoChange(why=f"run {earlier.run} did it at {earlier.at}; it is not done a second time")
    if earlier.done:
        return Blocked(
            why=f"run {earlier.run} did it at {earlier.at}, and the host needs it again: {decision.summary}; "
            f"--repeat {name} does it a second time"
        )
    if earlier.verifiable:
        return decision
    return Blocked(
        why=f"run {earlier.run} sent it at {earlier.at}, and nobody knows whether it was done; check the host; then "
        f"--repeat {name} sends it again, --assume-done {name} takes it as done",
        in_doubt=True,
    )


def _rebooted(step: Step, earlier: EarlierChange, decision: Decision) -> Decision | None:
    """Return the decision on a reboot that an earlier run has sent; None if *step* would not reboot the host.

    The reboot is never sent again.  It is done if the boot id of the host has changed since then.
    """
    due = decision.then if isinstance(decision, Blocked) else decision
    if not isinstance(due, Change) or due.restart is None:
        return None
    when = f"run {earlier.run} sent the reboot at {earlier.at}"
    if earlier.assumed:
        return NoChange(why=f"--assume-done {written_id(step.id)}: taken as done; {when}")
    if due.restart.boot_id != earlier.boot_id:
        boots = f"boot {earlier.boot_id[:8]}, now {due.restart.boot_id[:8]}"
        return NoChange(why=f"{when}, and the host has rebooted since ({boots}); it is not rebooted a second time")
    name = written_id(step.id)
    return Blocked(
        why=f"{when}, and the host is still in boot {earlier.boot_id[:8]}: it may yet go down, so wait, and resume "
        f"once more; if it does not, look at its console and power-cycle it; --repeat {name} sends another reboot",
        in_doubt=True,
    )


def follows_again(step: Step, sent_now: set[str]) -> bool:
    """Whether *step* must be done again, because a step in its ``if_changed`` or ``if_failed`` was sent again.

    *sent_now*: the ids of the sent steps, as the playbook writes them.
    """
    return bool(sent_now.intersection((*step.if_changed, *step.if_failed)))


def changed_earlier(context: HostContext, step: Step) -> bool:
    """Whether *step* has already changed the host in an earlier run, as far as the records show."""
    return any(change.step == written_id(step.id) and (change.done or change.verifiable) for change in context.earlier)


def needs_no_finding(context: HostContext, step: Step) -> bool:
    """Whether *step* runs without a finding: it is clean-up, or a run that this run continues owes it to the host.

    The change of the earlier run may have cured the finding that called for the step.
    """
    if is_cleanup(step) or not step.always or context.run.owed is None:
        return is_cleanup(step)
    owing = context.run.owed.gone_on_with(context.host.name)
    return any(written_id(owed.id) == written_id(step.id) for cleanup in owing for owed in cleanup.steps)


def _earlier_change(context: HostContext, step: Step, item: Json, equal: Sequence[int]) -> EarlierChange | None:
    """Return the last earlier change of *step* for *item*; None if there is none.

    If the record hides the items of changes because they are secret, the last of these changes is assumed to be for
    *item*.
    """
    named = [change for change in context.earlier if change.step == written_id(step.id)]
    same = [change for change in named if item_text(change.item) == item_text(item)]
    if assumed := [change for change in named if change.assumed and change.position < 0]:
        return assumed[-1]
    hidden = [change for change in named if MASK in item_text(change.item)]
    if hidden:
        last = hidden[-1]
        doubt = any(not change.verifiable for change in hidden)
        return EarlierChange(run=last.run, at=last.at, step=last.step, item=item, done=False, verifiable=not doubt)
    return own_change(same, place_in_each(step.id), equal)
