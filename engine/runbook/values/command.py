"""Commands (only commands are ever sent to a host) and their results."""

from __future__ import annotations

import re
import shlex
from dataclasses import field, replace
from enum import StrEnum

from runbook.dataclass import dataclass
from runbook.secrets.detection import masked_argv, masked_text
from runbook.secrets.names import MASK, NOT_A_VALUE, REFERENCE, is_secret
from runbook.values.kept_file import Keep
from runbook.values.types import plural

BRIEF = 80
"""The maximum number of characters of a command in a sentence about it."""


class Effect(StrEnum):
    """The effect of a command on the host."""

    READ = "read"
    SCRATCH = "scratch"  # makes something of its own, and removes it again
    WRITE = "write"


PREAMBLE = re.compile(r"(LC_ALL=|unset |export |set -|#)[^\n]*\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something to run on one host; never a string that somebody glued together.

    Either *script* is empty and *argv* is the program with its arguments, or *script* is POSIX sh text and
    *argv* are its parameters ``$1``, ``$2`` ...
    """

    argv: tuple[str, ...] = ()
    script: str = ""
    effect: Effect
    stdin: str = ""
    timeout: float = 0.0
    """The time limit in seconds, enforced on the host; 0 means the default of the effect."""
    waits: float = 0.0
    """The seconds that the command waits on purpose, for processes to end or between two samples.  They do not count
    for its timeout, nor for the timeout of its step.
    """
    become: str = ""
    """The user to become with sudo; empty for the login user."""
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    accepts: tuple[int, ...] = (0,)
    """The exit codes that are an answer, not a fault."""
    foreign: bool = False
    """Whether the text comes from a playbook's author or a command line.  It may leave processes behind that go on
    writing.
    """
    confined: bool = False
    """Whether an author's probe has programs that may write; as root, the probe is then run without write access."""
    runs: tuple[tuple[str, ...], ...] = ()
    """For a script of runbook: the programs of the author that it runs, each with the directory before it (or an empty
    text) and its arguments after it.
    """
    owed: bool = False
    """Whether this is a clean-up that is due however the run ends: it is sent even after the run was asked once to
    end.
    """
    lock: str = ""
    """For a write: the folder of the host's lock, to which the shell of the command adds itself."""
    private: bool = False
    """Whether the command carries the whole content of a file, which may hold unknown secrets.  The output of a probe
    and the input of a write are then counted, but neither shown nor recorded.
    """
    hangs: str = ""
    """The program of a probe that may never answer (nvidia-smi).  After it once did not answer, other probes do not
    wait for it.
    """
    valid_for: float = 0.0
    """For a probe: the seconds for which one answer serves every equal probe while a plan is made."""
    send_before: float = field(default=0.0, compare=False)
    """For a write that others permitted: the time from which it must not be sent (``seconds_since_boot``); 0: none."""
    keep: Keep | None = None
    """The place in the record for the packed output of the command; None for ordinary output."""
    unkillable: bool = False
    """Whether ending the command half-way is worse than waiting (a GPU reset).  After its timeout it is reported,
    never signalled.
    """

    called: tuple[str, ...] = field(default=(), compare=False)
    """For a script of runbook: its name and its important arguments, which are shown instead of the script."""
    stands_for: tuple[str, ...] = field(default=(), compare=False)
    """For a script of runbook around one program: this program with its arguments, which a person could paste."""

    def without_private(self) -> Command:
        """Return the command as it may be recorded: without the file in its input, and without secret values of
        variables.
        """
        env = tuple((name, shown_variable(name, value)) for name, value in self.env)
        stdin = f"({len(self.stdin)} characters, not shown)" if self.private and self.stdin else self.stdin
        return replace(self, env=env, stdin=stdin) if (env, stdin) != (self.env, self.stdin) else self

    def shown(self) -> str:
        """Return one line for people: ``$`` and text to paste into a shell, or a script's name and its arguments."""
        if self.called or ("\n" in self.script.strip() and not self.stands_for):
            lines = plural(len(self.script.strip().splitlines()), "line")
            words = self.called or (f"of {lines}", *self.argv)
            user = f" (as {self.become})" if self.become else ""
            return f"script {words[0]} {shlex.join(masked_argv(words[1:]))}".rstrip() + user
        plain = replace(self, script="", argv=self.stands_for, stands_for=(), stdin="") if self.stands_for else self
        line = str(plain)
        many = plural(line.count("\n") + 1, "line")
        return f"$ {line}" if "\n" not in line else f"command of {many}: {self.brief()}"

    def __str__(self) -> str:
        """Return the line that a person could paste into a shell for the same effect; secrets are masked."""
        argv = masked_argv(self.argv)
        words = ["sh", "-c", masked_text(self.script), "sh", *argv] if self.script else list(argv)
        if self.env:
            words = ["env", *(f"{name}={shown_variable(name, value)}" for name, value in self.env), *words]
        if self.become:
            words = ["sudo", "-n", "-u", self.become, "--", *words]
        line = shlex.join(words)
        if self.cwd:
            line = f"cd {shlex.quote(self.cwd)} && {line}"
        if self.private and self.stdin:
            return f"{line} <NEW  # {len(self.stdin)} characters, not shown"
        return f"printf %s {shlex.quote(masked_text(self.stdin))} | {line}" if self.stdin else line

    def brief(self) -> str:
        """Return a short line that identifies the command for a person."""
        if self.called:
            return f"script {shlex.join(masked_argv(self.called))}"
        text = masked_text(self.script) or shlex.join(masked_argv(self.argv))
        if PREAMBLE.match(text.lstrip()):  # how a script of our own begins says nothing
            return f"a script of {plural(len(text.strip().splitlines()), 'line')}"
        first, *rest = [line.strip() for line in text.splitlines() if line.strip()] or [""]
        cut = len(first) > BRIEF
        return f"{first[:BRIEF].rstrip()} ..." if cut or rest else first

    def meant(self) -> str:
        """Return ``brief()``; for a script of runbook without a name, return words instead of its first line."""
        return self.brief() if self.foreign or self.called or not self.script else "a script of runbook's own"

    def objection(self) -> str:
        """Return the reason why the command cannot be sent to any host; empty if it can.

        The kernel ends every argument, variable and path at a NUL character, so that a host would run something else.
        """
        if not self.script and not self.argv:
            return "the command is empty"
        if not self.script and self.argv[0].startswith("-"):
            return f"the name of a program cannot begin with a dash: {self.argv[0]!r}"
        for name, _ in self.env:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                return f"no environment variable can be called {name!r}"
        return next((f"{where} {what}" for where, text in self._texts() if (what := _unsendable(text))), "")

    def _texts(self) -> tuple[tuple[str, str], ...]:
        """Return every text of the command that reaches the host, with a name for the text."""
        words = [
            (f"argument {number}" if number else "the name of the program", text)
            for number, text in enumerate(self.argv, 1 if self.script else 0)
        ]
        values = [(f"the environment variable {name}", value) for name, value in self.env]
        plain = (("the script", self.script), ("the input", self.stdin), ("the directory", self.cwd))
        return (*words, *plain, *values, ("the user to become", self.become))


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The outcome of a command that was sent."""

    exit_code: int | None
    """The exit code of the program (128 + n for a signal, as in shells); None if there is no exit code."""
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    timed_out: bool = False
    survivors: tuple[str, ...] = ()
    """The processes that could not be ended when the command was ended, each as ``pid N (state) name``."""
    refused: str = ""
    """The reason why the command was certainly not started: sudo refused, no shell started, or it cannot be sent."""
    unconfined: str = ""
    """The reason why a probe ran with write access although it should not (``Command.confined``)."""
    missing: tuple[int, int] = (0, 0)
    """The number of bytes that were removed from the middle of stdout and of stderr, because the output was
    too long.
    """

    @property
    def cut(self) -> bool:
        """Whether a part of the output was removed."""
        return any(self.missing)

    def answers(self, command: Command) -> bool:
        """Whether this is an answer to *command*, not a fault."""
        if self.refused or self.timed_out or self.exit_code is None:
            return False
        return self.exit_code in command.accepts

    def why_not(self, otherwise: str = "") -> str:
        """Return the reason why this is no answer: the host's last error line, or *otherwise* and the exit code."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        if self.refused or (lines and not self.timed_out):
            return self.refused or lines[-1]
        code = "no exit code" if self.exit_code is None else f"exit code {self.exit_code}"
        why = "no answer in time" if self.timed_out else code
        return f"{otherwise} ({why})" if otherwise else why


def shown_variable(name: str, value: str) -> str:
    """Return the value of an environment variable as it may be shown; *name* may mean that the value is a secret."""
    if value.lower() in NOT_A_VALUE or REFERENCE.fullmatch(value):
        return value
    return MASK if is_secret(name, value) else masked_text(value)


def _unsendable(text: str) -> str:
    if "\0" in text:
        return "contains a NUL character, which cannot be sent to a host"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"contains half a character ({text[error.start]!r}), which cannot be sent to a host"
    return ""


def read(*argv: str, accepts: tuple[int, ...] = (0,)) -> Command:
    """Return a command that runs a program which only reads."""
    return Command(argv=argv, effect=Effect.READ, accepts=accepts)


def read_script(script: str, *parameters: str, accepts: tuple[int, ...] = (0,)) -> Command:
    """Return a command that runs a POSIX sh script which only reads."""
    return Command(script=script, argv=parameters, effect=Effect.READ, accepts=accepts)


def write_script(
    script: str, *parameters: str, called: tuple[str, ...] = (), accepts: tuple[int, ...] = (0,)
) -> Command:
    """Return a command that runs a POSIX sh script which changes the host; *called* is shown to people instead."""
    return Command(script=script, argv=parameters, effect=Effect.WRITE, accepts=accepts, called=called)
