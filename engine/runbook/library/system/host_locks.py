"""Report which runs hold the locks of a host: those of the user as whom the step runs."""

from __future__ import annotations

from runbook.dataclass import dataclass
from runbook.onhost.host_lock import ask_locks, read_locks
from runbook.protocols import Fails, Holds, Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """It takes no arguments: `become` says whose locks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The run that is changing the host."""

    held: tuple[str, ...]
    """The runs that hold a lock: run, playbook, by whom, since when."""
    asked: tuple[str, ...]
    """The runs that are just asking for one."""


def probe(args: Args) -> Probe[State]:
    """Read the locks in one script; changes nothing."""
    locks = read_locks((yield ask_locks()))
    return State(
        held=tuple(dict.fromkeys(words for kind, words in locks if kind == "held")),
        asked=tuple(dict.fromkeys(words for kind, words in locks if kind == "asks")),
    )


def holds(args: Args, state: State) -> Holds | Fails:
    """No run is changing the host."""
    if state.held or state.asked:
        return Fails(why=f"a run is changing this host: {', '.join((*state.held, *state.asked))}")
    return Holds(why="no run is changing this host")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands with which a person would inspect it."""
    return ("cat /run/runbook/*/lock-*/by ~/.cache/runbook/*/lock-*/by",)
