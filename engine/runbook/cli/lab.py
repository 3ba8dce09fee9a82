"""The commands of the lab."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from runbook.cli.echo import echo as tell
from runbook.cli.options import CONTEXT, completes, playbook_argument, run_options
from runbook.cli.strict_commands import StrictGroup


@click.group(cls=StrictGroup, context_settings=CONTEXT)
def lab() -> None:
    """Throw-away hosts on this machine, with faults to practise on."""


lab_directory = click.option("--dir", "directory", metavar="DIR", default="", help="Where the lab keeps its files.")
lab_server = click.option("--embedded", is_flag=True, help="Use the built-in SSH server even if sshd is installed.")
lab_hosts = click.option(
    "--host", "faults", multiple=True, metavar="NAME=FAULT[+FAULT]", help="Start a host with these faults."
)


@lab.command("up", context_settings=CONTEXT)
@lab_directory
@lab_hosts
@lab_server
@click.option("--for", "playbook", metavar="PLAYBOOK", default="", help="Start the hosts to practise this playbook on.")
def lab_up(directory: str, faults: Sequence[str], embedded: bool, playbook: str) -> None:
    """Start the lab, and show how to use it."""
    from runbook.commands.lab import up_text

    tell(up_text(directory, faults, embedded, playbook))


@lab.command("down", context_settings=CONTEXT)
@lab_directory
def lab_down(directory: str) -> None:
    """End every process of the lab."""
    from runbook.commands.lab import down_text

    tell(down_text(directory))


@lab.command("status", context_settings=CONTEXT)
@lab_directory
def lab_status(directory: str) -> None:
    """Show the lab's hosts, their faults and their processes."""
    from runbook.commands.lab import status_text

    tell(status_text(directory))


@lab.command("faults", context_settings=CONTEXT)
def lab_faults() -> None:
    """List the faults that a lab host can have."""
    from runbook.commands.lab import faults_text

    tell(faults_text())


@lab.command("shell", context_settings=CONTEXT)
@click.argument("host", shell_complete=completes("lab_hosts"))
@lab_directory
def lab_shell(host: str, directory: str) -> None:
    """Open an SSH session on a lab host."""
    from runbook.commands.lab import open_shell

    open_shell(directory, host)


@lab.command("run", context_settings=CONTEXT)
@playbook_argument
@lab_directory
@lab_hosts
@run_options
def lab_run(playbook: str, directory: str, faults: Sequence[str], **options: Any) -> int:
    """Start the lab, run PLAYBOOK on it, and stop it again.

    Without --host the lab has hosts with the faults that PLAYBOOK is for, and some healthy ones.
    """
    from runbook.commands.lab import run_in_lab
    from runbook.commands.options import RunOptions, made_from
    from runbook.reporting.terminal import Terminal

    return run_in_lab(playbook, directory, faults, made_from(RunOptions, options), Terminal())


for _option in lab_run.params:
    if isinstance(_option, click.Option) and _option.name == "inventory":
        _option.hidden = True  # the lab has its own; anybody who gives one gets an error
