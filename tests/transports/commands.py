"""Short ways to write a command."""

from __future__ import annotations

from engine.values.command import Command, Effect


def look(*argv: str, **keys) -> Command:
    return Command(argv=argv, effect=Effect.READ, **{"timeout": 10.0, **keys})


def script(text: str, *argv: str, **keys) -> Command:
    return Command(script=text, argv=argv, **{"effect": Effect.READ, "timeout": 10.0, **keys})


def change(text: str, *argv: str, **keys) -> Command:
    return script(text, *argv, effect=Effect.WRITE, **keys)
