"""Print to stdout and stderr, with control characters written out."""

from __future__ import annotations

import click

from runbook.text.printable import printable


def echo(text: str) -> None:
    """Print *text* on stdout."""
    click.echo(printable(text))


def echo_error(line: str) -> None:
    """Print *line* on stderr, as ours."""
    click.echo(f"runbook: {printable(line)}", err=True)
