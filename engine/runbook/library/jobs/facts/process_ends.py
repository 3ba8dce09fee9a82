"""Expressions for the end of a process in a log: by a signal (its name, number or word), or with an exit code."""

from __future__ import annotations

from typing import NamedTuple

CODE = (
    r"(?<!\bon )(?<!\bif )\b(?:exit(?:ed|s)?(?: with)?[ _]?(?:exit |error |return )?(?:code|status)|error code|"
    r"exit_?code|return_?code|retcode)\W{1,4}"
)
"""The words before an exit code; the code follows."""


class Signal(NamedTuple):
    """A signal that ends a process."""

    number: int
    name: str
    word: str
    """The word that a shell prints of such a process; a regular expression."""


HUP = Signal(1, "hup", "hangup")
ILL = Signal(4, "ill", "illegal instruction")
ABRT = Signal(6, "abrt", "aborted")
BUS = Signal(7, "bus", "bus error")
FPE = Signal(8, "fpe", "floating point exception")
KILL = Signal(9, "kill", "killed")
SEGV = Signal(11, "segv", "segmentation fault")
TERM = Signal(15, "term", "terminated")


def coded(signal: Signal) -> tuple[str, ...]:
    """Regular expressions for the exit codes of *signal*: -9 of Python, 137 of a shell."""
    return (rf"{CODE}(?:is |was |of )?(?:-{signal.number}|{128 + signal.number})\b",)


def by_signal(signal: Signal) -> tuple[str, ...]:
    """Regular expressions for lines (in lower case) that say *signal* ended a process, and not who sent it."""
    number, name, word = signal
    return (
        rf"(?<!closing )(?<!s of )\bsignals?\W{{1,3}}(?:number |no\. ?)?(?:{number}\b|{word})",
        rf"(?<!bypassing )(?<!closing )\bsignal\W{{1,3}}sig{name}\b",
        rf"\bsignals\.sig{name}\b|\(sig{name}\)",
        rf"(?:got|received|caught|was sent|killed by) (?:a )?sig{name}\b",
        rf"(?:exit|terminat|end|died?)\w* (?:on|by|with|from) (?:a )?sig{name}\b",
        rf"\b{word} \(core dumped\)|\(core dumped\) {word}",
        rf"^\W*{word}\W*$|\b\d+ +{word}\b|[:)\]] +{word}\W*$",
        rf"(?:process|worker|task|rank|child|subprocess)\b(?:(?! no | not ).){{0,60}} (?:was|were|been|got) {word}\b",
    )


def ended_by(*signals: Signal) -> tuple[str, ...]:
    """Regular expressions for all ways to tell that one of *signals* ended a process."""
    return tuple(pattern for signal in signals for pattern in (*coded(signal), *by_signal(signal)))
