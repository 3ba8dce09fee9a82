"""End the selected processes: the decision, and the judgement of the second probe."""

from __future__ import annotations

from collections.abc import Sequence

from runbook.library.jobs.facts.arguments import EndJobArguments
from runbook.library.jobs.facts.by_command_line import CommandLineMatch
from runbook.library.jobs.facts.by_open_files import OpenFileMatch
from runbook.library.processes.facts.victims import ProcessSnapshot, decision, disagreement, gone, process_in_words
from runbook.values.plan import Decision
from runbook.values.types import Unknown

AT_WORK_BY_HAND = "nvidia-smi  # twice; leave out every job that keeps a GPU busy, with its launcher and helpers"
"""The command of a person who ends by hand only what is left over."""

Selection = CommandLineMatch | OpenFileMatch


def termination_of(args: EndJobArguments, state: Selection, what: str, doubts: Sequence[str] = ()) -> Decision:
    """Return the change that ends the selected processes, or the leftover ones among them; *what* describes the
    selection."""
    spared = (
        []
        if isinstance(state.at_work, Unknown)
        else [f"{process_in_words(process)} is at work" for process in state.at_work]
    )
    spared += [
        f"{process_in_words(process)} is not left over: its owner lives (`spare_owned: false` ends it)"
        for process in state.owned
    ]
    spared += [f"{process_in_words(process)} has just started (`starting: 0` ends it)" for process in state.starting]
    spared += [
        f"{process_in_words(process)} listens on a port: a server at rest? (`idle_for: 10m`)"
        for process in state.listening
    ]
    spared += map(str, (*state.beyond_help, *state.protected))
    chosen_by = f"{'that is left over ' if args.only == 'leftover' else ''}{what}"
    return decision(_snapshot(args, state).victims, args.manner, chosen_by, spared, doubts)


def is_settled(args: EndJobArguments, before: Selection, after: Selection) -> bool:
    """Whether every victim is gone, and none has been started again."""
    return gone(_snapshot(args, before), _snapshot(args, after))


def explanation(args: EndJobArguments, before: Selection, after: Selection) -> str:
    """Name the processes that survived, and those that came back."""
    return disagreement(_snapshot(args, before), _snapshot(args, after), args.manner)


def _snapshot(args: EndJobArguments, state: Selection) -> ProcessSnapshot:
    found = state.matches if isinstance(state, CommandLineMatch) else state.processes
    return ProcessSnapshot(found=found, victims=found if args.only == "all" else state.leftover)
