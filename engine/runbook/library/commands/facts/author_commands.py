"""The result of a command that a playbook author wrote, and its meaning as the check of a change."""

from __future__ import annotations

import re
from functools import lru_cache

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.commands.facts.output_parsing import parsed
from runbook.programs.mutating_programs import MutatingCommand, mutating_command
from runbook.protocols import Fails, Holds
from runbook.values.command import Command, Completed
from runbook.values.excerpts import excerpt
from runbook.values.types import Json, Unknown, seconds

_READ_ONLY = re.compile(r"Read-only file system|Errno 30\b|EROFS")

_STATUS: dict[int, str] = {126: "the program cannot be executed", 127: "the program was not found"}


MAX_CHARACTERS = 1024 * 1024
"""The maximum number of characters of each stream that is parsed and that expressions can use."""

TOO_MUCH = f"the output exceeds {MAX_CHARACTERS // 1024} KiB, and its middle is missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandAnswer:
    """The answer of a probe, or of the check of a change."""

    exit_code: int | Unknown
    """The exit code; for a change, the exit code of its check."""
    stdout: str = ""
    """The standard output of the program."""
    stderr: str = ""
    """The standard error of the program."""
    value: Json | Unknown = None
    """The standard output, parsed according to `parse`."""


UNASKED = CommandAnswer(exit_code=Unknown(why="a change without a check probes nothing"))
"""The answer of a change without a check."""


def answered(command: Command, done: Completed, parse: Json, *, checking: bool) -> CommandAnswer:
    """Return the answer in *done*; *checking*: the command is the check of a change.  Raises ProbeError if there is no
    answer.
    """
    if not done.answers(command) or _was_kept_from_writing(command, done):
        raise ProbeError(_fault(command, done, checking=checking))
    assert done.exit_code is not None
    whole = not done.missing[0] and len(done.stdout) <= MAX_CHARACTERS
    stdout, stderr = (
        excerpt(done.stdout, done.missing[0], MAX_CHARACTERS),
        excerpt(done.stderr, done.missing[1], MAX_CHARACTERS),
    )
    value = parsed(stdout, parse) if whole or parse == "text" else Unknown(why=TOO_MUCH)
    return CommandAnswer(exit_code=done.exit_code, stdout=stdout, stderr=stderr, value=value)


def _was_kept_from_writing(command: Command, done: Completed) -> bool:
    """Whether *done* is no answer because the command ran without write access, so that its exit code may mean
    something else.
    """
    kept = command.confined and not done.unconfined and bool(done.exit_code)
    return kept and bool(_READ_ONLY.search(done.stderr))


def _fault(command: Command, done: Completed, *, checking: bool) -> str:
    what = "the check" if checking else "the command"
    if _was_kept_from_writing(command, done):
        return f"{what} wanted to write, and a probe cannot: {done.why_not()}"
    if done.timed_out:
        return f"{what} did not end within {seconds(done.seconds)}"
    if done.exit_code is None:
        return f"{what} returned no exit code"
    wanted = "0 (nothing to do) or 1 (needed)" if checking else " or ".join(map(str, command.accepts))
    said = [line.strip() for line in (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]]
    why = [_STATUS[done.exit_code]] if done.exit_code in _STATUS and not said else said
    return f"{what} exited with {done.exit_code}, wanted {wanted}" + (f": {' / '.join(why)}" if why else "")


def still_needed(after: CommandAnswer) -> str:
    """Return the message for a check that still fails after the change."""
    said = (after.stderr.strip() or after.stdout.strip()).splitlines()[-1:]
    return f"done, but its check still exits with {after.exit_code}" + "".join(f": {word.strip()}" for word in said)


def holding(answer: CommandAnswer, *, checked: bool) -> Holds | Fails:
    """Check the exit code: a probe must have an accepted one, a check must have 0."""
    if checked and answer.exit_code != 0:
        return Fails(why=f"the check exits with {answer.exit_code}")
    return Holds(why=f"exit code {answer.exit_code}")


def objection_to_look(what: str, argv: tuple[str, ...], script: str, action: str) -> str:
    """Return the reason why a probe (or a check) of *action* must not run this command; empty if it may."""
    found = _known(argv, script)
    if not found:
        return ""
    return (
        f"{what} may not change the host, and `{found.words}` does ({found.risk}); "
        f"write it under remediate as `{action}: {{check: ..., do: ...}}`"
    )


@lru_cache(maxsize=256)
def _known(argv: tuple[str, ...], script: str) -> MutatingCommand | None:
    """Return the result of ``mutating_command``; it is cached, because every host of a run asks for the same
    command.
    """
    return mutating_command(argv, script)
