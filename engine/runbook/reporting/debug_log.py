"""A log of everything that a run sends, decides and probes again, for the search for a fault: RUNBOOK_DEBUG,
or -vvv.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from typing import TextIO

from runbook.dataclass import dataclass
from runbook.errors import ConfigError, RunbookError
from runbook.protocols import Connection
from runbook.text.printable import on_one_line, printable
from runbook.values.command import Command, Completed, Effect
from runbook.values.event import (
    Answered,
    ChangeStarted,
    Event,
    HostFinished,
    HostPlanned,
    RunFinished,
    RunStarted,
    StepFinished,
    Waiting,
)
from runbook.values.plan import Finding, Presence
from runbook.values.result import StepResult

Say = Callable[[str], None]
"""A function that writes one line of the log."""

VARIABLE = "RUNBOOK_DEBUG"
"""The environment variable: with ``1`` the log goes to stderr; any other value is the name of a file to append to."""

MAX_COMMAND = 300
"""The maximum number of characters of a command that are shown."""

MAX_STDERR = 200
"""The maximum number of characters that are shown of the stderr of a failed command."""


def debug_lines(wanted: bool, say: Say) -> Say | None:
    """Return *say*, or a function that writes to the file in the environment variable; None: no debug log is wanted.

    Raises ConfigError if the file cannot be written.
    """
    place = os.environ.get(VARIABLE, "")
    if place in ("", "0") and not wanted:
        return None
    if place in ("", "0", "1"):
        return say
    file = _opened(Path(place).expanduser())
    return lambda line: print(line, file=file)


def _opened(path: Path) -> TextIO:
    """Return the file *path*, opened to append; only this user can read a new file.  Raises ConfigError."""
    # NONBLOCK: a pipe that nobody reads would be waited for
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        number = os.open(path, flags, 0o600)
    except OSError as error:
        raise ConfigError(f"{VARIABLE}: {path} cannot be written: {error.strerror}") from error
    file = os.fdopen(number, "a", buffering=1, encoding="utf-8", errors="backslashreplace")
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{VARIABLE}: {path} is not a regular file; name another one")
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ConfigError(f"{VARIABLE}: others can read or write {path}: run chmod 600 {path}, or name another file")
    return file


class DebugLog:
    """Receives the events of a run and the traffic of its connections; used by many threads."""

    def __init__(self, say: Say, mask: Callable[[str], str]) -> None:
        self._say, self._mask = say, mask
        self._lock = threading.Lock()
        self._planned: set[str] = set()
        self._numbers = count(1)

    def line(self, host: str, text: str) -> None:
        """Write one line about *host*, without secrets."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        shown = printable(" ".join(self._mask(text).split()))  # masked as it is: a secret may have white space in it
        with self._lock:
            self._say(f"debug {now} {host or '-'}: {shown}")

    def connection(self, host: str, inner: Connection) -> Connection:
        """Return *inner*, wrapped so that everything sent to *host*, and its outcome, is logged."""
        return _Logged(inner, host, self)

    def sent(self, host: str, command: Command) -> int:
        """Log that *command* is about to be sent.  Returns a number for its answer."""
        number = next(self._numbers)
        again = " again" if host in self._planned and command.effect is Effect.READ else ""
        what = "probe" if command.effect is Effect.READ else str(command.effect)
        names = f" [{', '.join(found)}]" if (found := _scripts_in(command.script)) else ""
        shown = on_one_line(self._mask(command.without_private().shown()), MAX_COMMAND)
        self.line(host, f"send #{number} {what}{again}:{names} {shown}")
        return number

    def answered(self, host: str, number: int, command: Command, answer: Completed) -> None:
        """Log the outcome of *command*; *number* was returned by ``sent``."""
        words = f"exit {answer.exit_code}" if answer.exit_code is not None else "no exit code"
        words = f"refused: {answer.refused}" if answer.refused else f"timed out, {words}" if answer.timed_out else words
        size = f"{len(answer.stdout)} + {len(answer.stderr)} characters"
        failed = not answer.answers(command) and answer.stderr and not command.private
        said = (
            f": {on_one_line(self._mask(answer.stderr).strip(), MAX_STDERR)}" if failed else ""
        )  # cut once it is masked
        self.line(host, f"answer #{number}: {words} after {answer.seconds:.3f} s, {size}{said}")

    def _findings(self, host: str, findings: Iterable[Finding]) -> None:
        """Log the findings of a host."""
        absent = [finding.id for finding in findings if finding.status is Presence.ABSENT]
        for finding in findings:
            if finding.status is not Presence.ABSENT:
                self.line(host, f"finding {finding.id} is {finding.status}: {finding.say}")
        if absent:
            self.line(host, f"findings that are absent: {', '.join(absent)}")

    def on(self, event: Event) -> None:
        """Log the decisions and outcomes in *event*."""
        match event:
            case RunStarted(run=run, mode=mode, playbook=playbook):
                self.line("", f"run {run} of {playbook} begins ({mode})")
            case HostPlanned(plan=plan):
                self._planned.add(plan.host)
                self._findings(plan.host, plan.findings)
                for result in plan.results:
                    self.line(plan.host, f"decided {result.id}: {_result_text(result)}")
            case Answered(answer=answer):
                self.line("", f"the person said {answer}")
            case Waiting(host=host, why=why):
                self.line(host, f"waits: {why}")
            case ChangeStarted(host=host, step=step, summary=summary, risk=risk):
                self.line(host, f"change {step} begins ({risk}): {summary}")
            case StepFinished(host=host, result=result):
                probed = ", probed again" if result.verified else ""
                self.line(host, f"step {result.id} ended: {_result_text(result)}{probed}")
            case HostFinished(result=result):
                self._findings(result.host, result.findings)
                why = f": {result.error}" if result.error else ""
                self.line(result.host, f"the host ends as {result.verdict}{why}")
            case RunFinished(result=result):
                self.line("", f"run {result.run} ended with exit code {result.exit_code}")


def _result_text(result: StepResult) -> str:
    why = f": {result.why}" if result.why else f": {result.planned}" if result.planned else ""
    return f"{result.status}{why}"


@cache
def _script_files() -> tuple[tuple[str, Sequence[str]], ...]:
    """Return every script of runbook: its file below the package, and its text as it is sent, split at
    ``@PLACEHOLDERS@``.
    """
    package = Path(__file__).parents[1]
    found = []
    for path in sorted(package.rglob("*.sh")):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        text = "".join(line for line in lines if not line.lstrip().startswith("#"))
        if text.strip():
            found.append((str(path.relative_to(package)), re.split(r"@[A-Z_]+@", text)))
    return tuple(found)


@lru_cache(maxsize=256)
def _scripts_in(script: str) -> tuple[str, ...]:
    """Return the files of runbook whose text is at the end of *script*; the common beginning of all scripts is not
    named.
    """
    return tuple(name for name, pieces in _script_files() if script and _ends_with(script, pieces))


def _ends_with(script: str, pieces: Sequence[str]) -> bool:
    """Whether *script* ends with *pieces*, with other text between them (the values of placeholders)."""
    if not script.endswith(pieces[-1]):
        return False
    at = len(script) - len(pieces[-1])
    return all((at := script.rfind(piece, 0, at)) >= 0 for piece in reversed(pieces[:-1]))


@dataclass(frozen=True, slots=True)
class _Logged:
    """A connection whose traffic is written to a debug log."""

    inner: Connection
    host: str
    log: DebugLog

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands*; each is logged before it is sent."""
        numbers = [self.log.sent(self.host, command) for command in commands]
        try:
            answers = self.inner.run(*commands)
        except RunbookError as error:
            self.log.line(self.host, f"no answer: {error}")
            raise
        for number, command, answer in zip(numbers, commands, answers, strict=True):
            self.log.answered(self.host, number, command, answer)
        return answers

    def close(self) -> None:
        """Close the inner connection."""
        self.inner.close()
