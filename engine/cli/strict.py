"""Commands that take no empty option for one that was not given, and say what a stray word may have meant."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource


class Command(click.Command):
    """A command whose options have values where they are given at all: an empty one is a variable that is not set."""

    def invoke(self, ctx: click.Context) -> Any:
        """Refuse what is empty, and go on."""
        for it in self.params:
            value = ctx.params.get(it.name or "")
            given = ctx.get_parameter_source(it.name or "") is ParameterSource.COMMANDLINE
            if given and (value == "" or (isinstance(it, click.Option) and isinstance(value, tuple) and "" in value)):
                name = it.opts[-1] if isinstance(it, click.Option) else it.human_readable_name
                raise click.UsageError(f"{name} is empty: give it a value, or leave it out", ctx)
        return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; a word too many is named with what it may have been meant for."""
        written = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if type(error) is click.UsageError and error.message.startswith("Got unexpected extra argument"):
                raise click.UsageError(_reworded(error.message, self, written), ctx) from None
            raise


def _reworded(message: str, command: click.Command, args: list[str]) -> str:
    if "" in args:
        return "a word is empty: a variable of the shell that is not set, or stray quotes?"
    takes_hosts = any(it.name in ("pattern", "hosts") for it in command.params)
    hint = "; several hosts are joined by commas: gpu-01,gpu-02" if takes_hosts else ""
    return f"{message}{hint}"


class Group(click.Group):
    """A group of such commands."""

    command_class = Command
