"""Run a program or a shell script given in the playbook: as a probe, or as a change with a check."""

from __future__ import annotations

from dataclasses import field

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program with its arguments, or POSIX sh text with its parameters."""

    argv: tuple[str, ...] = ()
    """The program and its arguments; they are not passed through a shell."""
    script: str = ""
    """POSIX sh text, instead of `argv`."""
    params: tuple[str, ...] = ()
    """Parameters of the script: $1, $2 ..."""

    def __post_init__(self) -> None:
        if self.argv and self.script:
            raise ValueError("give one of `argv` and `script`, not both")
        if self.params and not self.script:
            raise ValueError("`params` are the parameters of a `script`, but no `script` is given")
        if self.argv and not self.argv[0]:
            raise ValueError("`argv`: the program's name is empty")

    def __bool__(self) -> bool:
        return bool(self.argv or self.script)

    def command(self, effect: Effect, accepts: tuple[int, ...]) -> Command:
        """Return the command that runs this program."""
        argv = self.params if self.script else self.argv
        confined = effect is Effect.READ and is_to_be_confined(argv, self.script)
        return Command(argv=argv, script=self.script, effect=effect, accepts=accepts, foreign=True, confined=confined)


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """A probe (argv or script), or a change (do, with or without check)."""

    argv: tuple[str, ...] = ()
    """A probe: the program and its arguments."""
    script: str = ""
    """A probe: POSIX sh text."""
    params: tuple[str, ...] = ()
    """Parameters of the script: $1, $2 ..."""
    parse: Json = "text"
    """The form in which the output is parsed into .value: text, lines, json, csv (first row: names), or {regex:
    ...}.
    """
    accepts: tuple[int, ...] = field(default=(0,), metadata={"min_items": 1})
    """Exit codes that count as success."""
    check: Program = Program()
    """A probe before the change. Exit code 0: nothing to do; 1: the change is needed; other codes: unknown."""
    do: Program = Program()
    """The command that makes the change."""

    def __post_init__(self) -> None:
        program = Program(argv=self.argv, script=self.script, params=self.params)
        if bool(program) == bool(self.do):
            raise ValueError("give `argv` or `script` for a probe, or `do` (with `check`) for a change")
        if self.check and not self.do:
            raise ValueError("`check` belongs to a change, but no `do` is given")
        if self.do and self.parse != "text":
            raise ValueError("`parse` belongs to a probe, not to a change")
        if problem := problem_with(self.parse):
            raise ValueError(problem)


def probe(args: Args) -> Probe[State]:
    """Run the probe, or the check of a change; a change without a check is not probed."""
    if args.do and not args.check:
        return UNASKED
    program = args.check or Program(argv=args.argv, script=args.script, params=args.params)
    command = program.command(Effect.READ, (0, 1) if args.check else args.accepts)
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
    return Change(
        summary=f"run {_short(args.do)}",
        commands=(args.do.command(Effect.WRITE, args.accepts),),
        risk=_risk(args),
        verifiable=bool(args.check),
    )


def _risk(args: Args) -> Risk:
    """Return the known risk of the program if there is a check; otherwise the risk is unknown, because the program can
    do anything.
    """
    found = mutating_command(args.do.argv, args.do.script) if args.check else None
    return found.risk if found else Risk.UNKNOWN


def explain(args: Args, before: State, after: State) -> str:
    """Return the message for a check that still fails after the change."""
    return still_needed(after)


def holds(args: Args, state: State) -> Holds | Fails:
    """Check the exit code: a probe must have an accepted one, a check must have 0."""
    return holding(state, checked=bool(args.check))


def objection(args: Args) -> str:
    """Return the reason why the probe or the check is not allowed: it runs a program that is known to change things."""
    return objection_to_look("a probe", args.argv, args.script, "command") or objection_to_look(
        "a check", args.check.argv, args.check.script, "command"
    )


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the command that a person would run by hand."""
    program = args.do or Program(argv=args.argv, script=args.script, params=args.params)
    return (str(program.command(Effect.READ, (0,))),)


def _short(program: Program, most: int = 80) -> str:
    line = (
        str(program.command(Effect.READ, (0,))) if program.argv else " ; ".join(program.script.split("\n")).strip(" ;")
    )
    return line if len(line) <= most else f"{line[: most - 3]}..."
