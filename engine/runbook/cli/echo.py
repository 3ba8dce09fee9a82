"""Print to stdout and stderr, with control characters made visible."""

from __future__ import annotations

import click

from runbook.text.printable import printable


def echo(text: str) -> None:
    """Print *text* on stdout."""
    click.echo(printable(text))


def echo_error(line: str) -> None:
    """Print *line* on stderr, with the prefix ``runbook:``."""
    click.echo(f"runbook: {printable(line)}", err=True)
