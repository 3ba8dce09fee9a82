"""argv in, exit code out; no logic."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from engine import __version__
from engine.app.streams import OutputLost, take_over_standard_streams
from engine.errors import RunbookError
from engine.values.printable import printable

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


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
        if not error.reader_gone:  # `| head` is no fault
            _say(str(error))
    except RunbookError as error:
        for line in str(error).splitlines():
            _say(line)
        code = error.exit_code
    sys.exit(code if isinstance(code, int) else 0)


def _say(line: str) -> None:
    click.echo(f"runbook: {printable(line)}", err=True)


def _print(text: str) -> None:
    click.echo(printable(text))


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


def _completes(what: str, *, or_a_file: bool = False) -> Any:
    """A completion of words by the function *what* of ``engine.app.completing``."""

    def complete(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
        from engine.app import completing

        items = [CompletionItem(it) for it in completing.proposals(getattr(completing, what), context.params, begun)]
        return items or ([CompletionItem(begun, type="file")] if or_a_file else [])

    return complete


FILE = click.Path()  # for the shell: any file's name completes it
inventory_option = click.option(
    "-i", "--inventory", multiple=True, metavar="FILE", type=FILE,
    help="Inventory; may be given again. Default: $RUNBOOK_INVENTORY, then ./inventory/distributed_hosts.yaml.",
)  # fmt: skip
playbook_argument = click.argument("playbook", shell_complete=_completes("playbooks", or_a_file=True))
not_ready_option = click.option("--include-not-ready", is_flag=True, help="Take hosts too whose status is not ready.")
fleet_options = _shared(
    inventory_option,
    click.option("--parallel", type=click.IntRange(1, 1000), default=32, show_default=True, help="Hosts at a time."),
    click.option("--timeout", metavar="DURATION", default="", help="Per look, where a step sets none (30s)."),
    click.option("--deadline", metavar="DURATION", default="", help="For the whole run; nothing is begun after it."),
    click.option("--yes", is_flag=True, help="Do not ask; also allows resets, and steps that want to be confirmed."),
    click.option(
        "--output",
        default="console",
        show_default=True,
        shell_complete=_completes("outputs"),
        help="console, json or jsonl, on stdout.",
    ),
    click.option(
        "--report", multiple=True, metavar="FILE", type=FILE, help="Also write this file (.json .jsonl .txt)."
    ),
    click.option("--strict-host-keys", is_flag=True, help="Refuse hosts whose SSH key is not known yet."),
    click.option("--connect-timeout", metavar="DURATION", default="10s", show_default=True, help="Per address."),
    not_ready_option,
)
run_options = _shared(
    click.option(
        "--hosts",
        metavar="PATTERN",
        default=None,
        shell_complete=_completes("hosts"),
        help="Who: all, a name, gpu-[01-16], a group, key=value, a,b,!c.",
    ),
    click.option("--dry-run", is_flag=True, help="Look, and say what would be done; nothing is changed."),
    click.option(
        "-e",
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME=VALUE",
        shell_complete=_completes("inputs"),
        help="Set an input of the playbook.",
    ),
    click.option("--inputs", "inputs_file", metavar="FILE", default="", type=FILE, help="Inputs from a YAML file."),
    click.option("--only", type=click.Choice(["diagnose"]), help="Run only this part."),
    click.option(
        "--tags",
        multiple=True,
        metavar="TAG,...",
        shell_complete=_completes("tags"),
        help="Make only changes that carry one of these tags.",
    ),
    click.option(
        "--skip-tags",
        multiple=True,
        metavar="TAG,...",
        shell_complete=_completes("tags"),
        help="Leave out the steps that carry one of these.",
    ),
    click.option("--force", is_flag=True, help="Let steps run whose finding is unknown. Think twice."),
    click.option("--detailed-exitcode", is_flag=True, help="Exit 3 when a dry run would change something."),
    fleet_options,
)


@cli.command(context_settings=CONTEXT)
@playbook_argument
@run_options
def run(playbook: str, **options: Any) -> int:
    """Run PLAYBOOK on hosts: look, show the plan, ask, do it, look again.

    Exit code: 0 fine, 1 a host failed, is unresolved or unknown, 2 a mistake in a file or on the command line,
    3 (--detailed-exitcode) a dry run would change something, 4 a host unreachable, 5 deadline, 6 drift, 130 interrupted
    or declined.
    """
    from engine.app.commands import run_playbook
    from engine.app.person import Terminal

    return run_playbook(playbook, options, Terminal())


@cli.command("exec", context_settings=CONTEXT)
@click.argument("pattern", shell_complete=_completes("hosts"))
@click.option("--read", is_flag=True, help="The command only looks: no plan, no question.")
@fleet_options
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(pattern: str, argv: tuple[str, ...], **options: Any) -> int:
    """Run one command on the hosts of PATTERN: runbook exec all --read -- uptime.

    Every argument reaches the host unchanged. Without --read it counts as an unchecked change.
    """
    from engine.app.commands import exec_command
    from engine.app.person import Terminal

    return exec_command(pattern, argv, options, Terminal())


@cli.command(context_settings=CONTEXT)
@click.argument("pattern", default="all", shell_complete=_completes("hosts"))
@inventory_option
@not_ready_option
def hosts(pattern: str, inventory: Sequence[str], include_not_ready: bool) -> None:
    """Show who PATTERN would take, who is left out, and why."""
    from engine.app.showing import hosts_text

    _print(hosts_text(pattern, inventory, include_not_ready))


@cli.command(context_settings=CONTEXT)
@click.argument("playbook", nargs=-1, shell_complete=_completes("playbooks", or_a_file=True))
@click.option("--strict", is_flag=True, help="A warning counts as a mistake (exit code 2).")
@click.option("--rules", is_flag=True, help="List what is warned about, and why.")
def check(playbook: Sequence[str], strict: bool, rules: bool) -> int:
    """Validate playbooks: every mistake at once, with its place; then warn of what is likely to go wrong.

    Connects to nothing. A comment `# runbook: allow RULE` on a line, or above it, switches a warning off there.
    """
    from engine.app.checking import checked, rules_text

    if rules:
        _print(rules_text())
    elif not playbook:
        raise click.UsageError("name a playbook, or --rules")
    faulty = False
    for it in checked(playbook):
        click.echo(printable(it.text), err=not it.good)
        faulty = faulty or not it.good or (strict and it.warned)
    return 2 if faulty else 0


@cli.command(context_settings=CONTEXT)
@playbook_argument
def show(playbook: str) -> None:
    """Show what PLAYBOOK does, in words that a person could follow by hand."""
    from engine.app.showing import show_text

    _print(show_text(playbook))


@cli.command(context_settings=CONTEXT)
def schema() -> None:
    """Print the JSON Schema of playbooks, for editors: runbook schema > playbook.schema.json.

    Then begin a playbook with: # yaml-language-server: $schema=playbook.schema.json
    """
    from engine.app.showing import schema_text

    _print(schema_text())


@cli.command("list", context_settings=CONTEXT)
def list_() -> None:
    """List the playbooks that a bare name can mean."""
    from engine.app.showing import list_text

    _print(list_text())


@cli.command(context_settings=CONTEXT)
@click.argument("name", default="", shell_complete=_completes("actions"))
def actions(name: str) -> None:
    """List the actions; with NAME, what it takes and what it sees."""
    from engine.app.showing import actions_text

    _print(actions_text(name))


@cli.command(context_settings=CONTEXT)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes SHELL complete our words.

    \b
    bash:  runbook completion bash > ~/.local/share/bash-completion/completions/runbook
    zsh:   runbook completion zsh > DIRECTORY_OF_FPATH/_runbook
    fish:  runbook completion fish > ~/.config/fish/completions/runbook.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    source = kind(cli, {}, "runbook", "_RUNBOOK_COMPLETE").source()
    click.echo(source.replace('string split ","', 'string split -m 1 ","'))  # a host pattern has commas of its own


@cli.group(context_settings=CONTEXT)
def lab() -> None:
    """Throw-away hosts on this machine, with faults to practise on."""


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

    _print(up_text(directory, faults, embedded))


@lab.command("down", context_settings=CONTEXT)
@lab_directory
def lab_down(directory: str) -> None:
    """End every process of the lab."""
    from engine.app.practice import down_text

    _print(down_text(directory))


@lab.command("status", context_settings=CONTEXT)
@lab_directory
def lab_status(directory: str) -> None:
    """Show the lab's hosts, their faults, and what lives there."""
    from engine.app.practice import status_text

    _print(status_text(directory))


@lab.command("faults", context_settings=CONTEXT)
def lab_faults() -> None:
    """List the faults that a lab host can have."""
    from engine.app.practice import faults_text

    _print(faults_text())


@lab.command("shell", context_settings=CONTEXT)
@click.argument("host", shell_complete=_completes("lab_hosts"))
@lab_directory
def lab_shell(host: str, directory: str) -> None:
    """Open an SSH session on a lab host."""
    from engine.app.practice import open_shell

    open_shell(directory, host)


@lab.command("run", context_settings=CONTEXT)
@playbook_argument
@lab_directory
@lab_hosts
@run_options
def lab_run(playbook: str, directory: str, faults: Sequence[str], **options: Any) -> int:
    """Start the lab, run PLAYBOOK on it, and stop it again."""
    from engine.app.person import Terminal
    from engine.app.practice import run_in_lab

    return run_in_lab(playbook, directory, faults, options, Terminal())


if __name__ == "__main__":
    main()
