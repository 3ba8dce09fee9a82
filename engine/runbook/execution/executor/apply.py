"""Send the commands of one change, each once; its clean-up commands are sent also after a failure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from runbook.errors import Cancelled, ConnectionLost, Unreachable
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.items import with_environment
from runbook.execution.diagnosis.probing import prepared
from runbook.onhost.fetched_output import unpacked
from runbook.protocols import NotPermitted
from runbook.values.command import Command, Completed
from runbook.values.kept_file import Keep, KeptFile, NotKept
from runbook.values.plan import Change
from runbook.values.playbook import Step
from runbook.values.result import Sent, SentCommand, Status, failure
from runbook.values.types import seconds


@dataclass(slots=True)
class SendResult:
    """The outcome of sending the commands of a change."""

    status: Status = Status.CHANGED
    """CHANGED if every command succeeded; otherwise FAILED, UNKNOWN or CANCELLED."""
    why: str = ""
    commands: list[SentCommand] = field(default_factory=list)
    sent: bool = False
    kept: tuple[KeptFile, ...] = ()
    """The files that were fetched from the host into the record."""
    lost: str = ""
    """The reason why no more commands can be sent to the host; empty if they can."""

    @property
    def extent(self) -> Sent:
        """Return whether all of the change was sent, a part, or nothing."""
        if self.status is Status.CHANGED:
            return Sent.ALL
        return Sent.PART if self.sent else Sent.NOTHING

    def ends(self, status: Status, why: str) -> None:
        """Record that sending ended with *status*; if it had already ended, only add *why* to the reason."""
        if self.status is Status.CHANGED:
            self.status, self.why = status, why
        else:
            self.why = f"{self.why}; {why}"


def send(context: HostContext, step: Step, change: Change, lock: str = "") -> SendResult:
    """Send *change* under the host's lock (*lock*: its directory); failures are returned as results, not raised."""
    done = SendResult()
    if name := context.unread_secret(step, changing=True):
        done.ends(Status.FAILED, f"nothing was sent: the secret {name!r} was not read for this run")
        return done
    step = with_environment(step, context.sending_scope(step.part))
    for number, command in enumerate(change.commands):
        command = prepared(replace(command, lock=lock), step)
        if (permitted := _permitted(context, step, number, command, done)) is None:
            break
        _send(context, step, permitted, done)
        if done.status is not Status.CHANGED:
            break
    if done.sent:
        for command in change.finally_:
            if done.lost:
                done.why = f"{done.why}; clean-up not sent: {command.brief()}"
                continue
            _send(context, step, prepared(replace(command, owed=True, lock=lock), step), done)
    return done


def _permitted(context: HostContext, step: Step, number: int, command: Command, done: SendResult) -> Command | None:
    """Return *command*, which is the command with that *number* of *step*, as it may be sent.

    None: the run has no permit for it, as *done* then says.
    """
    if context.run.permits is None:
        return command
    owed = step.always and context.changes.made
    host, seconds = context.host.name, command.timeout
    answer = context.run.permits.ask(host, step.id, number, command.brief(), seconds=seconds, owed=owed)
    if not isinstance(answer, NotPermitted):
        return replace(command, send_before=answer)
    status = Status.UNKNOWN if answer.in_doubt else Status.CANCELLED if answer.ended else Status.FAILED
    words = f"not sent: {command.brief()}" if done.sent else "nothing was sent"
    done.ends(status, f"{words}: {answer.why}")
    return None


def _send(context: HostContext, step: Step, command: Command, done: SendResult) -> None:
    context.hangs.forget()  # a change may be what makes a program answer again
    done_before = done.sent
    done.sent = True
    try:
        (answer,) = context.at(step.on).run(command)
    except Unreachable as error:  # also of a host that the step names with `on`
        done.sent = done_before
        done.ends(Status.FAILED, f"nothing was sent: {error}")
    except ConnectionLost as error:
        done.lost = "" if step.on else str(error)
        if error.sent:
            words = "the connection was lost while this command ran, and it is not sent again"
            done.ends(Status.UNKNOWN, f"{words}: {command.brief()} ({error})")
            done.commands.append(SentCommand.planned(command))
        else:
            done.sent = done_before
            status = Status.UNKNOWN if done_before else Status.FAILED if step.on else Status.UNREACHABLE
            done.ends(status, f"the connection was lost before this command was sent: {command.brief()} ({error})")
    except Cancelled as error:
        done.sent = done_before or error.sent
        done.ends(Status.CANCELLED, str(error))
        if error.sent:
            done.commands.append(SentCommand.planned(command))
    else:
        if answer.refused:
            done.sent = done_before
            words = f"not sent: {command.brief()}" if done_before else "nothing was sent"
            done.ends(Status.FAILED, f"{words}: {answer.refused}")
            return
        done.commands.append(SentCommand.of(command, answer))
        if not answer.answers(command):
            status = (
                Status.UNKNOWN if answer.exit_code is None and not _ended(command, answer) else failure(done.commands)
            )
            done.ends(status, _fault(context, step, command, answer))
        elif command.keep:
            _keep(context, command, command.keep, answer, done)


def _keep(context: HostContext, command: Command, keep: Keep, answer: Completed, done: SendResult) -> None:
    """Keep the file that *command* fetched in the record of the run."""
    assert context.run.files is not None  # `permitted` has seen to that
    fetched = unpacked(answer, keep, ran=command.foreign)
    kept = fetched if isinstance(fetched, NotKept) else context.run.files.keep(context.host.name, keep.name, fetched)
    if isinstance(kept, NotKept):
        done.ends(Status.FAILED, f"{keep.name}: {kept.why}")
    else:
        done.kept = (*done.kept, kept)


def _ended(command: Command, answer: Completed) -> bool:
    """Whether the timed-out command is known to have ended: it was killed, and none of its processes is left."""
    return answer.timed_out and not command.unkillable and not answer.survivors


def _fault(context: HostContext, step: Step, command: Command, answer: Completed) -> str:
    action = context.action(step)
    words = action.refused(command, answer) if action.refused else ""
    if words:
        return words
    if answer.timed_out:
        left = f"; still there: {', '.join(answer.survivors)}" if answer.survivors else ""
        ended = "the command was left running" if command.unkillable else "the command was ended on the host"
        return f"timed out after {seconds(command.timeout)}; {ended}{left}"
    if answer.exit_code is None:
        return "the host reported no exit code, so the command's outcome is unknown"
    said = (answer.stderr.strip() or answer.stdout.strip()).splitlines()
    return f"exit code {answer.exit_code}" + (f": {said[-1].strip()}" if said else "")
