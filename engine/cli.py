"""argv in, exit code out; no logic."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine import __version__
from engine.errors import ConfigError, RunbookError

if TYPE_CHECKING:
    from engine.fleet import Stop
    from engine.values.result import HostPlan

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def main() -> None:
    """The ``runbook`` program."""
    try:
        code = cli(standalone_mode=False)
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = 2
    except RunbookError as error:
        for line in str(error).splitlines():
            click.echo(f"runbook: {line}", err=True)
        code = error.exit_code
    except BrokenPipeError:
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


@click.group(context_settings=CONTEXT)
@click.version_option(__version__, prog_name="runbook")
def cli() -> None:
    """Diagnose and remediate stuck GPU hosts over SSH, with a dry run that tells the truth.

    \b
    runbook run zombie-gpu --hosts all --dry-run    what would be done, host by host; changes nothing
    runbook run zombie-gpu --hosts all              shows the plan, asks, does it, proves it
    runbook show zombie-gpu                         the playbook in words, to follow by hand
    runbook lab run zombie-gpu --hosts all          the same on throw-away hosts of this machine
    """


def _shared(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return add


inventory_option = click.option(
    "-i", "--inventory", multiple=True, metavar="FILE",
    help="Inventory; may be given again. Default: $RUNBOOK_INVENTORY, then ./inventory/distributed_hosts.yaml.",
)  # fmt: skip
not_ready_option = click.option("--include-not-ready", is_flag=True, help="Take hosts too whose status is not ready.")
fleet_options = _shared(
    inventory_option,
    click.option("--parallel", type=click.IntRange(1, 1000), default=32, show_default=True, help="Hosts at a time."),
    click.option("--timeout", metavar="DURATION", default="", help="Per look, where a step sets none (30s)."),
    click.option("--deadline", metavar="DURATION", default="", help="For the whole run; nothing is begun after it."),
    click.option("--yes", is_flag=True, help="Do not ask; also allows resets, and steps that want to be confirmed."),
    click.option("--output", default="console", show_default=True, help="console, json or jsonl, on stdout."),
    click.option("--report", multiple=True, metavar="FILE", help="Also write this file (.json .jsonl .txt)."),
    click.option("--strict-host-keys", is_flag=True, help="Refuse hosts whose SSH key is not known yet."),
    click.option("-K", "--ask-become-pass", is_flag=True, help="Ask for the password that sudo wants on the hosts."),
    click.option("--become-password-file", metavar="FILE", default="", help="Take it from this file (mode 600)."),
    click.option("--connect-timeout", metavar="DURATION", default="10s", show_default=True, help="Per address."),
    not_ready_option,
)
run_options = _shared(
    click.option(
        "--hosts", metavar="PATTERN", default="", help="Who: all, a name, gpu-[01-16], a group, key=value, a,b,!c."
    ),
    click.option("--dry-run", is_flag=True, help="Look, and say what would be done; nothing is changed."),
    click.option("-e", "--input", "inputs", multiple=True, metavar="NAME=VALUE", help="Set an input of the playbook."),
    click.option("--inputs", "inputs_file", metavar="FILE", default="", help="Inputs from a YAML file."),
    click.option("--only", type=click.Choice(["diagnose"]), help="Run only this part."),
    click.option("--tags", multiple=True, metavar="TAG,...", help="Make only changes that carry one of these tags."),
    click.option("--skip-tags", multiple=True, metavar="TAG,...", help="Leave out the steps that carry one of these."),
    click.option("--force", is_flag=True, help="Let steps run whose finding is unknown. Think twice."),
    click.option("--detailed-exitcode", is_flag=True, help="Exit 3 when a dry run would change something."),
    fleet_options,
)


@cli.command(context_settings=CONTEXT)
@click.argument("playbook")
@run_options
def run(playbook: str, **options: Any) -> int:
    """Run PLAYBOOK on hosts: look, show the plan, ask, do it, look again.

    Exit code: 0 fine, 1 a host failed, is unresolved or unknown, 2 a mistake in a file or on the command line,
    3 (--detailed-exitcode) a dry run would change something, 4 a host unreachable, 5 deadline, 6 drift, 130 interrupted
    or declined.
    """
    from engine.app.commands import run_playbook

    return run_playbook(playbook, options, _Person())


@cli.command("exec", context_settings=CONTEXT)
@click.argument("pattern")
@click.option("--read", is_flag=True, help="The command only looks: no plan, no question.")
@fleet_options
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(pattern: str, argv: tuple[str, ...], **options: Any) -> int:
    """Run one command on the hosts of PATTERN: runbook exec all --read -- uptime.

    Every argument reaches the host unchanged. Without --read it counts as an unchecked change.
    """
    from engine.app.commands import exec_command

    return exec_command(pattern, argv, options, _Person())


@cli.command(context_settings=CONTEXT)
@click.argument("pattern", default="all")
@inventory_option
@not_ready_option
def hosts(pattern: str, inventory: Sequence[str], include_not_ready: bool) -> None:
    """Show who PATTERN would take, who is left out, and why."""
    from engine.app.showing import hosts_text

    click.echo(hosts_text(pattern, inventory, include_not_ready))


@cli.command(context_settings=CONTEXT)
@click.argument("playbook", nargs=-1, required=True)
def check(playbook: Sequence[str]) -> int:
    """Validate playbooks: every mistake at once, with its place. Connects to nothing."""
    from engine.app.showing import check_texts

    faulty = False
    for good, text in check_texts(playbook):
        click.echo(text, err=not good)
        faulty = faulty or not good
    return 2 if faulty else 0


@cli.command(context_settings=CONTEXT)
@click.argument("playbook")
def show(playbook: str) -> None:
    """Show what PLAYBOOK does, in words that a person could follow by hand."""
    from engine.app.showing import show_text

    click.echo(show_text(playbook))


@cli.command("list", context_settings=CONTEXT)
def list_() -> None:
    """List the playbooks that a bare name can mean."""
    from engine.app.showing import list_text

    click.echo(list_text())


@cli.command(context_settings=CONTEXT)
@click.argument("name", default="")
def actions(name: str) -> None:
    """List the actions; with NAME, what it takes and what it sees."""
    from engine.app.showing import actions_text

    click.echo(actions_text(name))


@cli.group(context_settings=CONTEXT)
def lab() -> None:
    """Throw-away hosts on this machine, with faults to practise on (needs root)."""


lab_directory = click.option("--dir", "directory", metavar="DIR", default="", help="Where the lab keeps its files.")
lab_server = click.option("--embedded", is_flag=True, help="Use the built-in SSH server even where there is sshd.")
lab_hosts = click.option(
    "--host", "faults", multiple=True, metavar="NAME=FAULT[+FAULT]", help="A host with these faults."
)


@lab.command("up", context_settings=CONTEXT)
@lab_directory
@lab_hosts
@lab_server
def lab_up(directory: str, faults: Sequence[str], embedded: bool) -> None:
    """Start the lab, and say how to use it."""
    from engine.app.practice import up_text

    click.echo(up_text(directory, faults, embedded))


@lab.command("down", context_settings=CONTEXT)
@lab_directory
def lab_down(directory: str) -> None:
    """End every process of the lab."""
    from engine.app.practice import down_text

    click.echo(down_text(directory))


@lab.command("status", context_settings=CONTEXT)
@lab_directory
def lab_status(directory: str) -> None:
    """Show the lab's hosts, their faults, and what lives there."""
    from engine.app.practice import status_text

    click.echo(status_text(directory))


@lab.command("faults", context_settings=CONTEXT)
def lab_faults() -> None:
    """List the faults that a lab host can have."""
    from engine.app.practice import faults_text

    click.echo(faults_text())


@lab.command("shell", context_settings=CONTEXT)
@click.argument("host")
@lab_directory
def lab_shell(host: str, directory: str) -> None:
    """Open an SSH session on a lab host."""
    from engine.app.practice import open_shell

    open_shell(directory, host)


@lab.command("run", context_settings=CONTEXT)
@click.argument("playbook")
@lab_directory
@lab_hosts
@run_options
def lab_run(playbook: str, directory: str, faults: Sequence[str], **options: Any) -> int:
    """Start the lab, run PLAYBOOK on it, and stop it again."""
    from engine.app.practice import run_in_lab

    return run_in_lab(playbook, directory, faults, options, _Person())


class _Person:
    """Whoever started the program: can be asked, and can interrupt."""

    def __init__(self) -> None:
        self._asking = False

    def is_there(self) -> bool:
        """Whether stdin is a terminal."""
        return sys.stdin is not None and sys.stdin.isatty()

    def ask(self, plans: tuple[HostPlan, ...], count: int) -> bool:
        """Show the plans on stderr, and ask there."""
        from engine.reporters.console import Reporter

        Reporter(sys.stderr).show_plans(plans)
        self._asking = True
        try:
            click.echo(f"\nDo this on {count} host{'' if count == 1 else 's'}? [y/N] ", err=True, nl=False)
            return sys.stdin.readline().strip().lower() in ("y", "yes")
        except KeyboardInterrupt:
            click.echo("", err=True)
            return False
        finally:
            self._asking = False

    def secret(self, prompt: str) -> str:
        """Ask on the terminal, without an echo."""
        return str(click.prompt(prompt, hide_input=True, err=True, default="", show_default=False))

    def can_stop(self, stop: Stop) -> None:
        """From now on SIGINT, SIGTERM and SIGHUP ask the run to end, each time more urgently."""

        def asked(number: int, _frame: object) -> None:
            if self._asking:
                raise KeyboardInterrupt
            name = signal.Signals(number).name
            stop.ask(f"interrupted by {name}")
            last = stop.level() > 1
            words = (
                "ending writes too" if last else "ending looks; a write in flight is left to end (again: end it now)"
            )
            click.echo(f"runbook: {name}: {words}", err=True)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, asked)


if __name__ == "__main__":
    main()


__all__ = ["ConfigError", "Path", "cli", "main"]
