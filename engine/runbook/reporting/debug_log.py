"""A log of what a run sends, decides and probes again, to find a fault: RUNBOOK_DEBUG, or -vvv."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path

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
from runbook.values.plan import Finding
from runbook.values.result import StepResult

Say = Callable[[str], None]
"""Writes one line of the log."""

VARIABLE = "RUNBOOK_DEBUG"
"""``1``: the log goes to stderr; any other value is the file that it is appended to."""

MAX_COMMAND = 300
"""Characters that are shown of a command."""

MAX_STDERR = 200
"""Characters that are shown of what a command wrote to stderr where it failed."""


def debug_lines(wanted: bool, say: Say) -> Say | None:
    """Where a debug log goes: to *say*, or into the file that the environment names; None: nobody asked for one.

    Raises ConfigError where the file cannot be written.
    """
    place = os.environ.get(VARIABLE, "")
    if place in ("", "0") and not wanted:
        return None
    if place in ("", "0", "1"):
        return say
    path = Path(place).expanduser()
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.fdopen(os.open(path, flags, 0o600), "a", buffering=1, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigError(f"{VARIABLE}: {path} cannot be written: {error.strerror}") from error
    return lambda line: print(line, file=file)


class DebugLog:
    """Listens to a run and to its connections; used by many threads."""

    def __init__(self, say: Say, mask: Callable[[str], str]) -> None:
        self._say, self._mask = say, mask
        self._lock = threading.Lock()
        self._planned: set[str] = set()

    def line(self, host: str, text: str) -> None:
        """Write one line about *host*, without secrets."""
        now = datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
        shown = printable(self._mask(" ".join(text.split())))
        with self._lock:
            self._say(f"debug {now} {host or '-'}: {shown}")

    def connection(self, host: str, inner: Connection) -> Connection:
        """*inner*, with what is sent to *host* and how it ends in the log."""
        return _Logged(inner, host, self)

    def sent(self, host: str, command: Command) -> None:
        """Note that *command* is about to be sent."""
        again = " again" if host in self._planned and command.effect is Effect.READ else ""
        what = "probe" if command.effect is Effect.READ else str(command.effect)
        names = f" [{', '.join(found)}]" if (found := _scripts_in(command.script)) else ""
        shown = on_one_line(self._mask(command.without_private().shown()), MAX_COMMAND)
        self.line(host, f"send {what}{again}:{names} {shown}")

    def answered(self, host: str, command: Command, answer: Completed) -> None:
        """Note how *command* has ended."""
        words = f"exit {answer.exit_code}" if answer.exit_code is not None else "no exit code"
        words = f"refused: {answer.refused}" if answer.refused else f"timed out, {words}" if answer.timed_out else words
        size = f"{len(answer.stdout)} + {len(answer.stderr)} characters"
        failed = not answer.answers(command) and answer.stderr and not command.private
        said = f": {answer.stderr[:MAX_STDERR]}" if failed else ""
        self.line(host, f"answer: {words} after {answer.seconds:.3f} s, {size}{said}")

    def on(self, event: Event) -> None:
        """Note what is decided, and what became of it."""
        match event:
            case RunStarted(run=run, mode=mode, playbook=playbook):
                self.line("", f"run {run} of {playbook} begins ({mode})")
            case HostPlanned(plan=plan):
                self._planned.add(plan.host)
                for finding in plan.findings:
                    self.line(plan.host, _finding_text(finding))
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
                self.line(host, f"ended {result.id}: {_result_text(result)}{probed}")
            case HostFinished(result=result):
                why = f": {result.error}" if result.error else ""
                self.line(result.host, f"ended as {result.verdict}{why}")
            case RunFinished(result=result):
                self.line("", f"run {result.run} ended with exit code {result.exit_code}")


def _finding_text(finding: Finding) -> str:
    return f"finding {finding.id} is {finding.status}: {finding.say}"


def _result_text(result: StepResult) -> str:
    why = f": {result.why}" if result.why else f": {result.planned}" if result.planned else ""
    return f"{result.status}{why}"


@cache
def _script_files() -> tuple[tuple[str, str], ...]:
    """Every script of ours: its file below the package, and its text as it is sent, without comment lines."""
    package = Path(__file__).parents[1]
    found = []
    for path in sorted(package.rglob("*.sh")):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        text = "".join(line for line in lines if not line.lstrip().startswith("#"))
        found.append((str(path.relative_to(package)), text))
    return tuple(found)


@lru_cache(maxsize=256)
def _scripts_in(script: str) -> tuple[str, ...]:
    """The files that *script* ends with; what all scripts share stands before that, and is not named."""
    return tuple(name for name, text in _script_files() if script and text.strip() and script.endswith(text))


@dataclass(frozen=True, slots=True)
class _Logged:
    """A connection whose traffic is in a debug log."""

    inner: Connection
    host: str
    log: DebugLog

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands*, which are in the log before they are sent."""
        for command in commands:
            self.log.sent(self.host, command)
        try:
            answers = self.inner.run(*commands)
        except RunbookError as error:
            self.log.line(self.host, f"no answer: {error}")
            raise
        for command, answer in zip(commands, answers, strict=True):
            self.log.answered(self.host, command, answer)
        return answers

    def close(self) -> None:
        """Hang up the inner connection."""
        self.inner.close()
