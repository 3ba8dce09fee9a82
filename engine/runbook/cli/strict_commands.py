"""Commands that refuse empty options, and suggest the right place or name for a wrong word."""

from __future__ import annotations

import re
from typing import Any

import click
from click.core import ParameterSource


class StrictCommand(click.Command):
    """A command that refuses an empty value of an option or argument, because it usually comes from an unset
    variable.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Refuse empty values, then continue."""
        for param in self.params:
            value = ctx.params.get(param.name or "")
            given = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
            if given and (
                value == "" or (isinstance(param, click.Option) and isinstance(value, tuple) and "" in value)
            ):
                name = param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name
                raise click.UsageError(f"{name} is empty: give it a value, or leave the option out", ctx)
        return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse *args* as click does; if a word or option is wrong, fail with a message that suggests what was
        meant.
        """
        written = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if hint := _elsewhere(error.option_name, self):
                raise click.UsageError(f"No such option '{error.option_name}'{hint}", ctx) from None
            raise
        except click.MissingParameter as error:
            if error.param is None or error.param.name not in ("run", "before", "after"):
                raise
            name = error.param.human_readable_name
            words = f"Missing argument '{name}': a run's id, its beginning, or `last` (`runbook history` lists them)"
            raise click.UsageError(words, ctx) from None
        except click.UsageError as error:
            if type(error) is click.UsageError and error.message.startswith("Got unexpected extra argument"):
                raise click.UsageError(_reworded(error.message, self, written), ctx) from None
            raise


def _reworded(message: str, command: click.Command, args: list[str]) -> str:
    if "" in args:
        return "an argument is empty: is a shell variable not set, or are there stray quotes?"
    takes_hosts = any(param.name in ("pattern", "hosts") for param in command.params)
    hint = "; join several hosts by commas: gpu-01,gpu-02" if takes_hosts else ""
    return f"{message}{hint}"


ELSEWHERE = {
    "--check": "--dry-run",
    "-C": "--dry-run",
    "--plan": "--dry-run",
    "--limit": "--hosts PATTERN",
    "-l": "--hosts PATTERN",
    "--target": "--hosts PATTERN",
    "--host": "--hosts PATTERN",
    "--extra-vars": "-e NAME=VALUE, or --inputs FILE",
    "--var": "-e NAME=VALUE",
    "--var-file": "--inputs FILE",
    "-t": "--tags TAG",
    "--format": "--output FORMAT",
    "--output": "--format FORMAT",
    "--out": "--format FORMAT, which is written to stdout",
    "--last": "--limit N",
    "-n": "--limit N",
    "--forks": "--parallel N",
    "-f": "--parallel N",
    "-y": "--yes",
    "--auto-approve": "--yes",
    "--diff": "--dry-run, whose plan has the diff of every file",
    "-D": "--dry-run, whose plan has the diff of every file",
}
"""The option with the same meaning here, keyed by options of Ansible, Terraform, pyinfra and our other commands."""

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
"""The way to write the same here, keyed by options of other programs."""


COMMANDS = {
    "validate": "check PLAYBOOK",
    "lint": "check PLAYBOOK",
    "destroy": "undo RUN",
    "rollback": "undo RUN",
    "revert": "undo RUN",
    "log": "history show RUN",
    "logs": "history show RUN",
    "runs": "history",
    "status": "history, or locks",
    "ping": "exec PATTERN --read -- true",
    "inventory": "hosts",
    "doc": "actions NAME",
    "ls": "list",
}
"""The command with the same meaning here, keyed by commands of Ansible, Terraform and others."""


def _elsewhere(option: str, command: click.Command) -> str:
    """Return a hint with the name in *command* for *option*, which another program or command has; empty if there
    is none.
    """
    arguments = {param.name: param.human_readable_name for param in command.params if isinstance(param, click.Argument)}
    if "pattern" in arguments and option in ("--host", "--hosts", "--limit", "-l", "--target"):
        return f" (here: the argument {arguments['pattern']}, without an option)"
    if (name := option.removeprefix("--")) in arguments:
        return f" (here: the argument {arguments[name]}, without an option)"
    ours = _options(command)
    meant = ELSEWHERE.get(option, "")
    if meant and re.split("[ ,]", meant)[0] in ours:
        return f" (here: {meant})"
    return f" (here: {BESIDES[option]})" if option in BESIDES and "--hosts" in ours else ""


def _options(command: click.Command) -> frozenset[str]:
    return frozenset(name for param in command.params for name in (*param.opts, *param.secondary_opts))


class StrictGroup(click.Group):
    """A group of strict commands."""

    command_class = StrictCommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the command as click does.

        If the user typed a command of another program, or of one of our command groups, fail with the right command.
        """
        if args and args[0] not in self.commands and (meant := self._meant(ctx, args[0])):
            raise click.UsageError(f"No such command '{args[0]}' (here: {meant})", ctx)
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: click.Context, name: str) -> str:
        if "show" in self.commands and ctx.parent and re.fullmatch(r"last|\d{8}T\d\w*(-\w*)?", name):
            return f"{ctx.command_path} show {name}"
        if ctx.parent:
            return ""
        groups = (
            command
            for command in self.commands.values()
            if isinstance(command, click.Group) and name in command.commands
        )
        inner = next(groups, None)
        meant = f"{inner.name} {name}" if inner else COMMANDS.get(name, "")
        return f"{ctx.command_path} {meant}" if meant else ""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse *args* as click does; for an option that belongs to one of the commands, fail with its right place."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            option = error.option_name
            owners = [name for name, it in self.commands.items() if option in _options(it)]
            if not owners:
                raise
            owner = "run" if "run" in owners else owners[0]
            meant = f"`{ctx.command_path} {owner} {option}`"
            words = f"No such option '{option}' here: write it behind the command, as in {meant}"
            raise click.UsageError(words, ctx) from None
