"""argv in, exit code out; no logic."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import get_completion_class

from engine import __version__
from engine.app.standard_streams import OutputGivenUp, OutputLost, end_as_by_sigpipe, take_over_standard_streams
from engine.cli.echo import echo as tell
from engine.cli.echo import echo_error
from engine.cli.lab import lab
from engine.cli.options import (
    CONTEXT,
    completes,
    fleet_options,
    inventory_option,
    monitor_options,
    not_ready_option,
    playbook_argument,
    run_options,
)
from engine.cli.strict_commands import StrictGroup
from engine.errors import RunbookError
from engine.text.printable import printable


def main() -> None:
    """The ``runbook`` program."""
    take_over_standard_streams()
    try:
        code = cli(prog_name="runbook", standalone_mode=False)
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = 2
    except OutputLost as error:
        code = error.exit_code
        if error.reader_gone:  # `| head` is no fault
            end_as_by_sigpipe()
        echo_error(str(error))
    except OutputGivenUp as error:
        error.leave()
    except RunbookError as error:
        for line in str(error).splitlines():
            echo_error(line)
        code = error.exit_code
    sys.exit(code if isinstance(code, int) else 0)


@click.group(cls=StrictGroup, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="runbook")
def cli() -> None:
    """Diagnose and remediate stuck GPU hosts over SSH, with a dry run that tells the truth.

    \b
    runbook run zombie-gpu --hosts all --dry-run    what would be done, host by host; changes nothing
    runbook run zombie-gpu --hosts all              shows the plan, asks, does it, proves it
    runbook show zombie-gpu                         the playbook in words, to follow by hand
    runbook lab run zombie-gpu --hosts all          the same on throw-away hosts of this machine
    """


@cli.command(context_settings=CONTEXT, short_help="Watch hosts: memory, GPUs, containers, disks, the kernel.")
@monitor_options
def monitor(**options: Any) -> int:
    """Watch hosts: memory, GPUs, containers, disks, kills for memory; ends with Ctrl-C.

    Only looks. What it looks at, and when a number is worth a colour, stands in the playbook `monitor`
    (runbook show monitor); every host has its own pace, so that one that hangs keeps nobody waiting.
    """
    from engine.app.monitor_command import monitor_hosts
    from engine.app.terminal import Terminal

    return monitor_hosts(options, Terminal())


@cli.command(context_settings=CONTEXT, short_help="Run PLAYBOOK: diagnose, show the plan, ask, do it, diagnose again.")
@playbook_argument
@run_options
def run(playbook: str, **options: Any) -> int:
    """Run PLAYBOOK on hosts: look, show the plan, ask, do it, look again.

    Exit code: 0 fine, 1 a host failed, is unresolved or unknown, 2 a mistake in a file or on the command line,
    3 (--detailed-exitcode) a dry run would change something, 4 a host unreachable, 5 deadline or stop_after,
    6 a host had changed since its plan was shown, 130 interrupted or declined.
    """
    from engine.app.run_command import run_playbook
    from engine.app.terminal import Terminal

    return run_playbook(playbook, options, Terminal())


@cli.command("exec", context_settings=CONTEXT, short_help="Run one command on the hosts of PATTERN.")
@click.argument("pattern", shell_complete=completes("hosts"))
@click.option("--read", is_flag=True, help="The command only reads: no plan, no question.")
@fleet_options
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(pattern: str, argv: tuple[str, ...], **options: Any) -> int:
    """Run one command on the hosts of PATTERN: runbook exec all --read -- uptime.

    Every argument reaches the host unchanged. Without --read it counts as an unchecked change: it asks, or wants --yes.
    No shell is between: for a pipe or a glob, write -- sh -c 'df -h | grep nvme'. With --read a host is `healthy` if
    the command exits with 0, and `unknown` if not; without, it is `resolved` or `failed`.
    """
    from engine.app.run_command import exec_command
    from engine.app.terminal import Terminal

    return exec_command(pattern, argv, options, Terminal())


@cli.command(context_settings=CONTEXT)
@click.argument("pattern", default="all", shell_complete=completes("hosts"))
@inventory_option
@not_ready_option
@click.option("-v", "--verbose", is_flag=True, help="Also show keys, jump hosts, GPUs, roles, and where a host stands.")
def hosts(pattern: str, inventory: Sequence[str], include_not_ready: bool, verbose: bool) -> None:
    """Show who PATTERN would take, who is left out, and why."""
    from engine.app.show_commands import hosts_text

    tell(hosts_text(pattern, inventory, include_not_ready, verbose=verbose))


@cli.command(context_settings=CONTEXT, short_help="Validate playbooks: every mistake at once, with its place.")
@click.argument("playbook", nargs=-1, shell_complete=completes("playbooks", or_a_file=True))
@click.option("--strict", is_flag=True, help="A warning counts as a mistake (exit code 2).")
@click.option("--rules", is_flag=True, help="List what is warned about, and why.")
def check(playbook: Sequence[str], strict: bool, rules: bool) -> int:
    """Validate playbooks: every mistake at once, with its place; then warn of what is likely to go wrong.

    Connects to nothing. A comment `# runbook: allow RULE` on a line, or above it, switches a warning off there.
    """
    from engine.app.check_command import checked, rules_text

    if rules:
        tell(rules_text())
    elif not playbook:
        raise click.UsageError("name a playbook, or --rules")
    faulty = False
    for it in checked(playbook):
        click.echo(printable(it.text), err=not it.good)
        faulty = faulty or not it.good or (strict and it.warned)
    return 2 if faulty else 0


@cli.command(context_settings=CONTEXT, short_help="Show what PLAYBOOK does, in words to follow by hand.")
@playbook_argument
def show(playbook: str) -> None:
    """Show what PLAYBOOK does, in words that a person could follow by hand."""
    from engine.app.playbook_text import show_text

    tell(show_text(playbook))


@cli.command(context_settings=CONTEXT, short_help="Print the JSON Schema of playbooks, or their keys in words.")
@click.option("--keys", is_flag=True, help="Print every key of a playbook in words, for people.")
def schema(keys: bool) -> None:
    """Print the JSON Schema of playbooks, for editors; with --keys, every key in words.

    \b
    runbook schema > playbook.schema.json
    and as the first line of a playbook:
    # yaml-language-server: $schema=playbook.schema.json
    """
    from engine.app.show_commands import keys_text, schema_text

    tell(keys_text() if keys else schema_text())


@cli.command("list", context_settings=CONTEXT)
def list_() -> None:
    """List the playbooks that can be run by their name."""
    from engine.app.show_commands import list_text

    tell(list_text())


@cli.command(context_settings=CONTEXT)
@click.argument("name", default="", shell_complete=completes("actions"))
def actions(name: str) -> None:
    """List what steps can do; with NAME, its arguments and fields."""
    from engine.app.show_commands import actions_text

    tell(actions_text(name))


@cli.command(context_settings=CONTEXT, short_help="Print the script for completion in bash, zsh or fish.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script with which SHELL completes commands, playbooks and hosts.

    \b
    bash:  runbook completion bash > ~/.local/share/bash-completion/completions/runbook
    zsh:   runbook completion zsh > DIRECTORY_OF_FPATH/_runbook
    fish:  runbook completion fish > ~/.config/fish/completions/runbook.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    source = kind(cli, {}, "runbook", "_RUNBOOK_COMPLETE").source()
    click.echo(source.replace('string split ","', 'string split -m 1 ","'))  # a host pattern has commas of its own


cli.add_command(lab)
