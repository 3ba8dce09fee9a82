"""Short ways to write a command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from runbook.values.command import Command, Completed, Effect


def look(*argv: str, **keys) -> Command:
    return Command(argv=argv, effect=Effect.READ, **{"timeout": 60.0, **keys})


def script(text: str, *argv: str, **keys) -> Command:
    return Command(script=text, argv=argv, **{"effect": Effect.READ, "timeout": 60.0, **keys})


def change(text: str, *argv: str, **keys) -> Command:
    return script(text, *argv, effect=Effect.WRITE, **keys)


def late(connection, made: Callable[[float], Command], begun: Path) -> Completed:
    """What is said of a command past its timeout that had made the file *begun* by then: on a slow machine, a longer one."""
    for timeout in (1.0, 10.0, 60.0):
        (done,) = connection.run(made(timeout))
        if begun.exists():
            return done
    raise AssertionError(f"{begun} was not made within 60 s")
