"""Say things on stdout and stderr; nothing in them steers a terminal."""

from __future__ import annotations

import click

from engine.errors import ConfigError, RunbookError
from engine.values.printable import printable

MOST_MISTAKES = 50
"""Mistakes that are shown at once; whoever made more made one of them many times."""


def tell(text: str) -> None:
    """Print *text* on stdout."""
    click.echo(printable(text))


def complain(line: str) -> None:
    """Print *line* on stderr, as ours."""
    click.echo(f"runbook: {printable(line)}", err=True)


def lines_of(error: RunbookError) -> list[str]:
    """*error* in lines for a person: of very many mistakes the first, and how many more there are."""
    if not isinstance(error, ConfigError) or len(error.problems) <= MOST_MISTAKES:
        return str(error).splitlines()
    shown = [line for problem in error.problems[:MOST_MISTAKES] for line in str(problem).splitlines()]
    return [*shown, f"... and {len(error.problems) - MOST_MISTAKES} more mistakes"]
