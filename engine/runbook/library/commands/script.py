"""Run a shell script from a file beside the playbook: as a probe, or as a change with a check.

The file is read when the playbook is loaded, so that the plan is made from its text. The text is sent to the host, and
no file is left there. The first line of the file selects sh, dash, ash or bash; without such a line, sh is used.
"""

from __future__ import annotations

import re
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.library.commands.facts.author_commands import (
    UNASKED,
    CommandAnswer,
    answered,
    holding,
    objection_to_look,
    still_needed,
)
from runbook.library.commands.facts.output_parsing import problem_with
from runbook.programs.mutating_programs import mutating_command
from runbook.programs.reading_programs import is_to_be_confined
from runbook.protocols import Fails, Holds, Probe
from runbook.values.command import Command, Effect
from runbook.values.plan import Change, Decision, NoChange, Risk
from runbook.values.types import Json

State = CommandAnswer

_SHEBANG = re.compile(r"#![ \t]*(?:\S*/env[ \t]+(?:-S[ \t]*)?)?(?:\S*/)?(\S+)[ \t]*(.*)")
_FLAGS = re.compile(r"-[a-zA-Z]+|")
_BASH = 'exec 3<&0 </dev/null; exec bash "$@"'
"""The start of bash: the script comes on stdin, and its programs must not read from stdin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script to run."""

    file: str = ""
    """The script file on this machine: a path within the playbook's folder, or an absolute path."""
    args: tuple[str, ...] = ()
    """The arguments of the script: $1, $2 ..."""
    text: str = field(default="", metadata={"content_of": "file"})
    """The text of the file; read from it when the playbook is loaded."""

    def __post_init__(self) -> None:
        if self.args and not self.file:
            raise ValueError("`args` are the arguments of a script, but no `file` is given")
        if self.file and (why := _fault_in(self.text)):
            raise ValueError(f"{self.file} {why}")

    def __bool__(self) -> bool:
        return bool(self.file)

    def __str__(self) -> str:
        return " ".join((self.file, *self.args))

    def command(self, effect: Effect, accepts: tuple[int, ...]) -> Command:
        """Return the command that runs this script."""
        made = replace(self._whole(effect, accepts), called=(self.file, *self.args))
        return replace(made, confined=effect is Effect.READ and is_to_be_confined((), self.text))

    def _whole(self, effect: Effect, accepts: tuple[int, ...]) -> Command:
        shell, flags = _first_line(self.text)
        if shell == "bash":
            argv = (*([flags] if flags else ()), "/dev/fd/3", *self.args)
            return Command(argv=argv, script=_BASH, stdin=self.text, effect=effect, accepts=accepts, foreign=True)
        text = f"set {flags}\n{self.text}" if flags else self.text
        return Command(argv=self.args, script=text, effect=effect, accepts=accepts, foreign=True)


def _first_line(text: str) -> tuple[str, str]:
    """Return the shell that the first line of *text* names, and its flags."""
    found = _SHEBANG.match(text)
    return (found[1], found[2].strip()) if found else ("sh", "")


def _fault_in(text: str) -> str:
    shell, flags = _first_line(text)
    if not text.strip():
        return "is empty"
    if "\r\n" in text:
        return "has Windows line ends (CR LF), which no shell accepts: save it with LF"
    if shell not in ("sh", "dash", "ash", "bash"):
        return f"is for {shell}, but only sh, dash, ash and bash are run: start {shell} by `command` if hosts have it"
    if not _FLAGS.fullmatch(flags):
        return f"has `{shell} {flags}` in its first line: write such options into the script (set ...)"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """A probe (file), or a change (do, with or without check)."""

    file: str = ""
    """A probe: the script file on this machine: a path within the playbook's folder, or an absolute path."""
    args: tuple[str, ...] = ()
    """The arguments of the script: $1, $2 ..."""
    text: str = field(default="", metadata={"content_of": "file"})
    """The text of the file; read from it when the playbook is loaded."""
    parse: Json = "text"
    """The form in which the output is parsed into .value: text, lines, json, csv (first row: names), or {regex:
    ...}.
    """
    accepts: tuple[int, ...] = field(default=(0,), metadata={"min_items": 1})
    """Exit codes that count as success."""
    check: Script = Script()
    """A probe before the change. Exit code 0: nothing to do; 1: the change is needed; other codes: unknown."""
    do: Script = Script()
    """The script that makes the change."""

    def __post_init__(self) -> None:
        if bool(self.query) == bool(self.do):
            raise ValueError("give `file` for a probe, or `do` (with `check`) for a change")
        if self.check and not self.do:
            raise ValueError("`check` belongs to a change, but no `do` is given")
        if self.do and self.parse != "text":
            raise ValueError("`parse` belongs to a probe, not to a change")
        if problem := problem_with(self.parse):
            raise ValueError(problem)

    @property
    def query(self) -> Script:
        """Return the script of the probe."""
        return Script(file=self.file, args=self.args, text=self.text)


def probe(args: Args) -> Probe[State]:
    """Run the probe, or the check of a change; a change without a check is not probed."""
    if args.do and not args.check:
        return UNASKED
    command = (args.check or args.query).command(Effect.READ, (0, 1) if args.check else args.accepts)
    return answered(command, (yield command), args.parse, checking=bool(args.check))


def decide(args: Args, state: State) -> Decision:
    """Return no change if the check exits with 0, otherwise the change.

    Without a check, the change is always made, and not verified.
    """
    if not args.do:
        return NoChange(why="a probe changes nothing")
    if args.check and state.exit_code == 0:
        return NoChange(why="the check says that there is nothing to do (exit code 0)")
    return latent(args)


def latent(args: Args) -> Change:
    """Return the change that is made if the check says that it is needed."""
    found = mutating_command((), args.do.text) if args.check else None
    return Change(
        summary=f"run {args.do}",
        commands=(args.do.command(Effect.WRITE, args.accepts),),
        risk=found.risk if found else Risk.UNKNOWN,
        verifiable=bool(args.check),
    )


def explain(args: Args, before: State, after: State) -> str:
    """Return the message for a check that still fails after the change."""
    return still_needed(after)


def holds(args: Args, state: State) -> Holds | Fails:
    """Check the exit code: a probe must have an accepted one, a check must have 0."""
    return holding(state, checked=bool(args.check))


def objection(args: Args) -> str:
    """Return the reason why the probe or the check is not allowed: its script runs a program that is known to change
    things.
    """
    return objection_to_look(f"the probe {args.file}", (), args.text, "script") or objection_to_look(
        f"the check {args.check.file}", (), args.check.text, "script"
    )


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the command that a person would run by hand."""
    it = args.do or args.query
    return (f"ssh HOST {_first_line(it.text)[0]} -s -- {' '.join(it.args)} <{it.file}".replace("  ", " "),)
