"""Commands that take no empty option for one that was not given, and say what a stray word may have meant."""

from __future__ import annotations

import re
from typing import Any

import click
from click.core import ParameterSource


class StrictCommand(click.Command):
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
        except click.NoSuchOption as error:
            if hint := _elsewhere(error.option_name, self):
                raise click.UsageError(f"No such option '{error.option_name}'{hint}", ctx) from None
            raise
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


ELSEWHERE = {
    "--check": "--dry-run",
    "-C": "--dry-run",
    "--plan": "--dry-run",
    "--limit": "--hosts PATTERN",
    "-l": "--hosts PATTERN",
    "--target": "--hosts PATTERN",
    "--extra-vars": "-e NAME=VALUE, or --inputs FILE",
    "--var": "-e NAME=VALUE",
    "--var-file": "--inputs FILE",
    "-t": "--tags TAG",
    "--forks": "--parallel N",
    "-f": "--parallel N",
    "-y": "--yes",
    "--auto-approve": "--yes",
    "--diff": "--dry-run, whose plan has the diff of every file",
    "-D": "--dry-run, whose plan has the diff of every file",
    "-v": "--report FILE.json, which has every command and what it said",
    "--verbose": "--report FILE.json, which has every command and what it said",
}
"""What Ansible, Terraform and pyinfra call what is an option here, too."""

BESIDES = {
    "--become": "a step that needs root says `become: true`",
    "-b": "a step that needs root says `become: true`",
    "--user": "the inventory says `ssh_user`",
    "-u": "the inventory says `ssh_user`",
    "--private-key": "the inventory says `ssh_key`",
    "--list-hosts": "runbook hosts PATTERN",
    "--list-tasks": "runbook show PLAYBOOK",
    "--syntax-check": "runbook check PLAYBOOK",
}
"""What stands elsewhere here."""


def _elsewhere(option: str, command: click.Command) -> str:
    """What *option* of another program is called in *command*; empty where there is no such thing."""
    ours = {name for it in command.params for name in (*it.opts, *it.secondary_opts)}
    meant = ELSEWHERE.get(option, "")
    if meant and re.split("[ ,]", meant)[0] in ours:
        return f" (here: {meant})"
    return f" (here: {BESIDES[option]})" if option in BESIDES and "--hosts" in ours else ""


class StrictGroup(click.Group):
    """A group of such commands."""

    command_class = StrictCommand
