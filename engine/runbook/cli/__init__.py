"""The command line: turns options and arguments into a call, and its result into an exit code; has no logic of its
own.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import get_completion_class

from runbook.cli.cluster import attach, cluster, sites, worker
from runbook.cli.echo import echo as tell
from runbook.cli.echo import echo_error
from runbook.cli.history import history
from runbook.cli.lab import lab
from runbook.cli.mcp import mcp
from runbook.cli.options import (
    CONTEXT,
    FILE,
    changing_options,
    completes,
    diagnose_options,
    fleet_options,
    inventory_option,
    monitor_options,
    not_ready_option,
    playbook_argument,
    printed_option,
    prolog_options,
    recorded_options,
    resume_options,
    run_options,
    settle_options,
    undo_options,
)
from runbook.cli.plans import apply, approve, plan, signers_option
from runbook.cli.strict_commands import StrictGroup
from runbook.cli.watch import serve, watch
from runbook.errors import RunbookError
from runbook.reporting.standard_streams import OutputGivenUp, OutputLost, end_as_by_sigpipe, take_over_standard_streams
from runbook.text.printable import printable
from runbook.version import __version__


def main() -> None:
    """Run the ``runbook`` program."""
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
    runbook run zombie-gpu --hosts all              shows the plan, asks, makes the changes, verifies
    runbook show zombie-gpu                         the playbook in words, to follow by hand
    runbook lab run zombie-gpu --hosts all          the same on throw-away hosts of this machine
    """


@cli.command(context_settings=CONTEXT, short_help="Watch hosts: memory, GPUs, containers, disks, the kernel.")
@monitor_options
def monitor(**options: Any) -> int:
    """Watch hosts: memory, GPUs, containers, disks, out-of-memory kills; ends with Ctrl-C.

    Changes nothing on the hosts. The playbook `monitor` defines what is probed and which values are coloured
    (runbook show monitor). Each host is probed independently, so that one that hangs does not delay the others.
    """
    from runbook.commands.monitor import MonitorOptions, monitor_hosts
    from runbook.commands.options import made_from
    from runbook.reporting.terminal import Terminal

    return monitor_hosts(made_from(MonitorOptions, options), Terminal())


@cli.command(context_settings=CONTEXT, short_help="See what is wrong with hosts, by every playbook that can tell.")
@diagnose_options
@recorded_options
def diagnose(**options: Any) -> int:
    """Run the probes of all playbooks of the library once, and name the playbook to continue with.

    Changes nothing. Takes every playbook about a host that needs no input, the library's and your own;
    what is about a job, a cluster or a container needs to know which: run those by name.
    Exit codes are those of `run`.
    """
    from runbook.commands.diagnose import diagnose_hosts
    from runbook.commands.options import FleetOptions, made_from
    from runbook.reporting.terminal import Terminal

    return diagnose_hosts(made_from(FleetOptions, options), Terminal())


@cli.command(context_settings=CONTEXT, short_help="Diagnose this machine within seconds, before or after a job.")
@click.argument("playbook", nargs=-1, required=True, shell_complete=completes("playbooks", or_a_file=True))
@prolog_options
def prolog(playbook: tuple[str, ...], **options: Any) -> int:
    """Diagnose this machine with each PLAYBOOK at once, for Slurm's Prolog, an init container or ExecStartPre.

    Only probes, without SSH, inventory or record, and prints one line: healthy, fault or unknown, and why.
    Exit code: 0 healthy, or unknown with --unknown pass; 1 a fault is known; 2 unknown with --unknown fail, or a
    mistake on the command line; 130 interrupted. docs/prolog.md has recipes.

    \b
    runbook prolog gpu-health disk-full
    runbook prolog gpu-health --drain               HealthCheckProgram: Slurm heeds no exit code of it
    """
    gc.disable()  # a process of seconds: going through what is imported costs more than the memory is worth
    from runbook.commands.options import made_from
    from runbook.commands.prolog import PrologOptions
    from runbook.commands.prolog import prolog as diagnose_here
    from runbook.reporting.terminal import Terminal

    return diagnose_here(playbook, made_from(PrologOptions, options), Terminal())


@cli.command(context_settings=CONTEXT, short_help="Run PLAYBOOK: diagnose, plan, ask, change, verify.")
@playbook_argument
@run_options
@recorded_options
def run(playbook: str, **options: Any) -> int:
    """Run PLAYBOOK on hosts: diagnose, show the plan, ask, change, diagnose again.

    Exit code: 0 fine, 1 a host failed, is unresolved or unknown, 2 a mistake in a file or on the command line,
    3 (--detailed-exitcode) a dry run would change something, 4 a host unreachable, 5 a deadline or limit,
    6 a host has changed since its plan was shown, 130 interrupted or declined.
    """
    from runbook.commands.options import RunOptions, made_from
    from runbook.commands.run import run_playbook
    from runbook.reporting.terminal import Terminal

    return run_playbook(playbook, made_from(RunOptions, {**options, "typed": sys.argv[1:]}), Terminal())


@cli.command(context_settings=CONTEXT, short_help="Do the clean-up that interrupted runs owe to hosts.")
@settle_options
@recorded_options
def settle(**options: Any) -> int:
    """Do what `always` steps of earlier runs could not do: the connection was lost, or runbook was killed.

    Goes by the records in $XDG_STATE_HOME/runbook/owed (~/.local/state). Each step is probed, shown, asked for,
    done and probed again, as in a run; then its record is removed. Exit codes are those of `run`; 1 also where a
    record cannot be settled (the playbook or the host has changed, the host is in no inventory any more).
    """
    from runbook.commands.options import made_from
    from runbook.commands.settle import SettleOptions
    from runbook.commands.settle import settle as settle_owed
    from runbook.reporting.terminal import Terminal

    return settle_owed(made_from(SettleOptions, options), Terminal())


@cli.command(context_settings=CONTEXT, short_help="Go on with a recorded run that did not get to its end.")
@click.argument("run")
@resume_options
@recorded_options
def resume(run: str, **options: Any) -> int:
    """Go on with RUN (an id, its beginning, or `last`): hosts not begun, failed, unreachable, unknown or cancelled.

    Each host is probed again. What that run did is not repeated; a change that was in flight is checked first,
    and where no probe can tell, --repeat or --assume-done says what to do. Exit codes are those of `run`.
    """
    from runbook.commands.options import made_from
    from runbook.commands.resume import ResumeOptions
    from runbook.commands.resume import resume as resume_run
    from runbook.reporting.terminal import Terminal

    return resume_run(run, made_from(ResumeOptions, options), Terminal())


@cli.command(context_settings=CONTEXT, short_help="Take back what a recorded run has changed.")
@click.argument("run")
@undo_options
@recorded_options
def undo(run: str, **options: Any) -> int:
    """Take back the changes of RUN (an id, its beginning, or `last`), the latest first, as far as that is possible.

    Files are restored byte for byte, with mode and owner, from copies that the hosts have kept; a service is stopped
    or started again. What was changed since is left alone and shown (exit code 6). What cannot be undone, such as a
    process that was ended, is listed. Exit codes are those of `run`; 1 also where nothing of what was changed can be
    undone.
    """
    from runbook.commands.options import made_from
    from runbook.commands.undo import UndoOptions
    from runbook.commands.undo import undo as undo_run
    from runbook.reporting.terminal import Terminal

    return undo_run(run, made_from(UndoOptions, options), Terminal())


@cli.command("exec", context_settings=CONTEXT, short_help="Run one command on the hosts of PATTERN.")
@click.argument("pattern", shell_complete=completes("hosts"))
@click.option("--read", is_flag=True, help="The command only reads: no plan, no question.")
@changing_options
@fleet_options
@recorded_options
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_(pattern: str, argv: tuple[str, ...], **options: Any) -> int:
    """Run one command on the hosts of PATTERN: runbook exec all --read -- uptime.

    Every argument reaches the host unchanged. Without --read it is an unchecked change: it needs a yes, or --yes.
    No shell reads them: for a pipe or a glob, write -- sh -c 'df -h | grep nvme'. With --read a host is `healthy` if
    the command exits with 0, and `unknown` if not; without, it is `resolved` or `failed`.
    """
    from runbook.commands.exec import ExecOptions, exec_command
    from runbook.commands.options import made_from
    from runbook.reporting.terminal import Terminal

    return exec_command(pattern, argv, made_from(ExecOptions, options), Terminal())


@cli.command(context_settings=CONTEXT, short_help="Show which runs are changing the hosts of PATTERN.")
@click.argument("pattern", default="all", shell_complete=completes("hosts"))
@fleet_options
def locks(pattern: str, **options: Any) -> int:
    """Show which runs hold the locks of the hosts of PATTERN: who, since when, which playbook.

    Changes nothing. Root's locks are read with sudo, those of the login user without. A lock ends with the connection
    that holds it, so that none is ever left behind. `runbook run --wait-lock` sets how long a run waits for one.
    """
    from runbook.commands.locks import list_locks
    from runbook.commands.options import FleetOptions, made_from
    from runbook.reporting.terminal import Terminal

    return list_locks(pattern, made_from(FleetOptions, options), Terminal())


@cli.command(context_settings=CONTEXT)
@click.argument("pattern", default="all", shell_complete=completes("hosts"))
@inventory_option
@not_ready_option
@click.option(
    "-v", "--verbose", is_flag=True, help="Also show keys, jump hosts, GPUs, roles, and places in the inventory file."
)
@printed_option
def hosts(pattern: str, inventory: tuple[str, ...], include_not_ready: bool, verbose: bool, output: str) -> None:
    """Show the hosts that PATTERN selects, those left out, and why."""
    from runbook.commands.listings import hosts_text
    from runbook.commands.options import Choosing

    choosing = Choosing(inventory=inventory, include_not_ready=include_not_ready)
    tell(hosts_text(pattern, choosing, verbose=verbose, output=output))


@cli.command(context_settings=CONTEXT, short_help="Validate playbooks: every mistake at once, with its place.")
@click.argument("playbook", nargs=-1, shell_complete=completes("playbooks", or_a_file=True))
@click.option("--strict", is_flag=True, help="Count a warning as a mistake (exit code 2).")
@click.option("--rules", is_flag=True, help="List the lint rules, and the reason for each.")
def check(playbook: Sequence[str], strict: bool, rules: bool) -> int:
    """Validate playbooks: report every mistake at once, with its place; then warn of what is likely to go wrong.

    PLAYBOOK may be a directory; without any, those in ./playbooks and $RUNBOOK_PLAYBOOKS are checked. A comment
    `# runbook: allow RULE` on a line, or above it, switches a warning off there. Connects to no host.
    """
    from runbook.commands.check import checked, named_files, rules_text

    if rules:
        tell(rules_text())
    faulty = False
    for report in checked(named_files(playbook) if playbook or not rules else ()):
        click.echo(printable(report.text), err=not report.good)
        faulty = faulty or not report.good or (strict and report.warned)
    return 2 if faulty else 0


@cli.command(context_settings=CONTEXT, short_help="Write an inventory, a first playbook and a check for CI.")
@click.argument("directory", default=".", type=click.Path(file_okay=False))
def init(directory: str) -> None:
    """Write the files to begin with to DIRECTORY: an inventory, a first playbook, and a check of playbooks for CI.

    Nothing is written where one of them is there already.
    """
    from runbook.commands.init import init_text

    tell(init_text(directory))


@cli.command(context_settings=CONTEXT, short_help="Write a new playbook to ./playbooks.")
@click.argument("name")
def new(name: str) -> None:
    """Write a playbook called NAME to ./playbooks, complete and commented, to be changed."""
    from runbook.commands.init import new_text

    tell(new_text(name))


@cli.command(context_settings=CONTEXT, short_help="Show what PLAYBOOK, or a saved plan, does, in words.")
@playbook_argument
@click.option("-v", "--verbose", is_flag=True, help="Show all of it, so that a person could do it by hand.")
@signers_option
def show(playbook: str, verbose: bool, allowed_signers: str) -> None:
    """Show what PLAYBOOK looks for and what it does about it; or a saved plan, as its dry run showed it.

    Of a plan (`runbook show plan.json`) it also says who made it, until when it may be applied, and who approved it.
    """
    from runbook.commands.plans.saved_text import plan_or_nothing
    from runbook.commands.show import show_text

    tell(plan_or_nothing(playbook, allowed_signers) or show_text(playbook, verbose=verbose))


@cli.command(context_settings=CONTEXT, short_help="Print the JSON Schema of playbooks, or their keys in words.")
@click.option("--keys", is_flag=True, help="Print every key of a playbook in words, for people.")
def schema(keys: bool) -> None:
    """Print the JSON Schema of playbooks, for editors; with --keys, every key in words.

    \b
    runbook schema > playbook.schema.json
    and as the first line of a playbook:
    # yaml-language-server: $schema=playbook.schema.json
    """
    from runbook.commands.listings import keys_text, schema_text

    tell(keys_text() if keys else schema_text())


@cli.command("list", context_settings=CONTEXT)
@printed_option
def list_(output: str) -> None:
    """List the playbooks that you can run by name.

    Yours are in ./playbooks, and in the directories of $RUNBOOK_PLAYBOOKS (`:` between them); then the library's.
    """
    from runbook.commands.listings import list_text

    tell(list_text(output))


@cli.command(context_settings=CONTEXT, short_help="Name the playbooks that are for an ERROR, the best first.")
@click.argument("error", nargs=-1)
@click.option("--file", metavar="FILE", type=FILE, default="", help="Read the error, or a whole log, from this file.")
@printed_option
def find(error: Sequence[str], file: str, output: str) -> int:
    """Name the playbooks that are for an ERROR: what matched, what each is for, and the line to type.

    \b
    runbook find 'CUDA-capable device(s) is/are busy or unavailable'
    runbook find @train.log                         a file, also --file train.log
    dmesg | runbook find -                          standard input

    Of a log the last 4 MiB are searched, and what it ends with counts more than what it begins with. Connects to no
    host. Exit code: 0 if a playbook was found, 1 if none, 2 a mistake on the command line.
    """
    from runbook.commands.find import playbooks_for

    answer = playbooks_for(error, file, output, lambda: sys.stdin.buffer)
    tell(answer.text)
    return answer.exit_code


@cli.command(context_settings=CONTEXT)
@click.argument("name", default="", shell_complete=completes("actions"))
@click.option("--scripts", is_flag=True, help="Print every sh script that NAME, or anything, can send to a host.")
def actions(name: str, *, scripts: bool) -> None:
    """List the actions; with NAME, its arguments and fields."""
    from runbook.commands.listings import actions_text

    tell(actions_text(name, scripts=scripts))


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


for command in (lab, plan, apply, approve, history, mcp, cluster, worker, sites, attach, watch, serve):
    cli.add_command(command)
