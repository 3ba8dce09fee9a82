"""The options that several commands share, and their shell completion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def shared(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return one decorator that adds all *options* to a command."""

    def add(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def completes(what: str, *, or_a_file: bool = False) -> Any:
    """Return a completion function for options, which calls the function *what* of ``runbook.cli.completing``."""

    def complete(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
        from runbook.cli import completing

        items = [
            CompletionItem(proposal)
            for proposal in completing.proposals(getattr(completing, what), context.params, begun)
        ]
        return items or ([CompletionItem(begun, type="file")] if or_a_file else [])

    return complete


FILE = click.Path(readable=False)  # for the shell: any file's name completes it; reading says itself what is wrong
inventory_option = click.option(
    "-i", "--inventory", multiple=True, metavar="FILE", type=FILE,
    help="Inventory file, or kubectl:CONTEXT, docker:, podman:, scontrol:, ansible:FILE; repeatable. "
    "Default: $RUNBOOK_INVENTORY, then ./inventory/distributed_hosts.yaml.",
)  # fmt: skip
printed_option = click.option(
    "--output", type=click.Choice(["console", "json"]), default="console", show_default=True, help="Format of stdout."
)
playbook_argument = click.argument("playbook", shell_complete=completes("playbooks", or_a_file=True))
not_ready_option = click.option("--include-not-ready", is_flag=True, help="Also take hosts whose status is not ready.")
hosts_option = click.option(
    "--hosts",
    metavar="PATTERN",
    default=None,
    shell_complete=completes("hosts"),
    help="Which hosts: all, a name, gpu-[01-16], gpu-*, a group, key=value; a,b is both, a!b is a without b. "
    "Without an inventory: user@host:port.",
)
input_option = click.option(
    "-e",
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=completes("inputs"),
    help="Set an input of the playbook; repeatable.",
)
shell_timeout_option = click.option(
    "--shell-timeout", metavar="DURATION", default="20s", show_default=True,
    help="How long a shell may take to start after the login; raise it for overloaded hosts.",
)  # fmt: skip
secret_options = (
    click.option("-K", "--ask-become-pass", is_flag=True, help="Ask for the sudo password of the hosts."),
    click.option(
        "--become-password-file",
        metavar="FILE",
        type=FILE,
        default="",
        help="Read the sudo password from this file (mode 600).",
    ),
)
parallel_option = click.option(
    "--parallel",
    type=click.IntRange(1, 1000),
    default=32,
    show_default=True,
    help="Number of hosts to work on at the same time.",
)
timeout_option = click.option(
    "--timeout",
    metavar="DURATION",
    default="",
    help="Timeout of each probe that sets none itself: 500ms, 30s, 5m or 2h. Default: 30s.",
)
records_option = click.option(
    "--records",
    metavar="DIR",
    type=FILE,
    default="",
    help="Directory of the records of runs. Default: $RUNBOOK_RECORDS, then $XDG_STATE_HOME/runbook/runs.",
)
recorded_options = shared(
    click.option("--reason", metavar="TEXT", default="", help="Why: kept in the record of the run, such as a ticket."),
    records_option,
    click.option("--no-record", is_flag=True, help="Change hosts although the run is not recorded."),
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask. Required for changes where there is no terminal.")
changing_options = shared(
    click.option(
        "--wait-lock",
        metavar="DURATION",
        default="1m",
        show_default=True,
        help="How long to wait for another run that is changing a host; 0s: do not wait.",
    ),
    yes_option,
)
limit_options = shared(
    timeout_option,
    click.option(
        "--deadline", metavar="DURATION", default="", help="Time limit of the run; nothing is started after it."
    ),
    click.option(
        "--host-deadline", metavar="DURATION", default="", help="Time limit of the work on one host; others go on."
    ),
    click.option(
        "--max-unavailable",
        metavar="N|P%",
        default="",
        help="Never have more hosts being changed, failed or unreachable than this; probing does not count.",
    ),
    click.option(
        "--stop-after", metavar="N|P%", default="", help="Start no further host once so many failed or are unreachable."
    ),
    click.option(
        "--batches",
        metavar="LIST",
        default="",
        help="Change hosts batch after batch: 1,10%,100%; the last one repeats.",
    ),
    click.option("--pause-between", metavar="DURATION", default="", help="Wait so long between two batches of hosts."),
    click.option(
        "--order",
        type=click.Choice(["inventory", "reverse_inventory", "sorted", "reverse_sorted", "shuffle"]),
        help="The order in which hosts are taken. Default: inventory.",
    ),
)
verbosity_options = shared(
    click.option(
        "-v",
        "--verbose",
        "verbosity",
        flag_value="verbose",
        help="On the console, also show evidence, all advice, and each step and host as it ends.",
    ),
    click.option("-q", "--quiet", "verbosity", flag_value="quiet", help="On the console, show only what is wrong."),
    click.option(
        "-vvv", "debug", is_flag=True, help="Log what is sent, decided and probed again on stderr ($RUNBOOK_DEBUG)."
    ),
)
output_options = shared(
    click.option(
        "--output",
        default="console",
        show_default=True,
        shell_complete=completes("outputs"),
        help="Format of stdout: console, html, json, jsonl, junit, markdown or openmetrics.",
    ),
    click.option(
        "--report",
        multiple=True,
        metavar="FILE",
        type=FILE,
        help="Also write a report to this file; its ending sets the format: .html, .json, .jsonl, .md, .prom, .txt or "
        ".xml (JUnit); repeatable.",
    ),
    verbosity_options,
)
_connecting = (
    *secret_options,
    click.option(
        "--connect-timeout",
        metavar="DURATION",
        default="10s",
        show_default=True,
        help="Time limit for each address of a host.",
    ),
    shell_timeout_option,
)
connection_options = shared(
    click.option("--strict-host-keys", is_flag=True, help="Refuse hosts whose host key is not known yet."),
    *_connecting,
)
unattended_connection_options = shared(
    click.option(
        "--strict-host-keys/--accept-new-host-keys",
        default=True,
        show_default=True,
        help="Refuse hosts whose host key is not known yet, for nobody sees the key; or take and remember it.",
    ),
    *_connecting,
)
"""The connection options of a command that nobody sits at."""
fleet_options = shared(
    inventory_option, parallel_option, limit_options, output_options, connection_options, not_ready_option
)
input_options = shared(
    input_option,
    click.option(
        "--inputs",
        "inputs_file",
        metavar="FILE",
        default="",
        type=FILE,
        help="Read inputs from a YAML file; -e overrides it.",
    ),
)
choice_options = shared(
    click.option(
        "--tags",
        multiple=True,
        metavar="TAG,...",
        shell_complete=completes("tags"),
        help="Make only the changes that have one of these tags.",
    ),
    click.option(
        "--skip-tags",
        multiple=True,
        metavar="TAG,...",
        shell_complete=completes("tags"),
        help="Skip the steps that have one of these tags.",
    ),
    click.option(
        "--force",
        is_flag=True,
        help="Run steps even if their finding is unknown. Dangerous.",
    ),
)
plan_options = shared(
    click.option("--detailed-exitcode", is_flag=True, help="Exit 3 when a dry run would change something."),
    click.option(
        "--scratch",
        is_flag=True,
        help="In a dry run, also take the probes that write files of their own, and remove them again.",
    ),
)
cluster_option = click.option(
    "--cluster",
    metavar="URL",
    default="",
    help="The cluster's PostgreSQL: postgresql://USER@HOST/DATABASE. Default: $RUNBOOK_CLUSTER.",
)
cluster_options = shared(
    cluster_option,
    click.option(
        "--start-within",
        metavar="DURATION",
        default="60s",
        show_default=True,
        help="With --via cluster: hosts that no worker has begun by then are left.",
    ),
    click.option(
        "--sign-with",
        metavar="FILE",
        default="",
        type=FILE,
        help="With --via cluster: the SSH key that signs the order.",
    ),
)
through_options = shared(
    click.option(
        "--via",
        type=click.Choice(["local", "cluster"]),
        default="local",
        show_default=True,
        help="Who works on the hosts: this process, or the workers at their sites.",
    ),
    cluster_options,
)
detach_option = click.option(
    "--detach", is_flag=True, help="With --via cluster: do not wait; `runbook attach` follows the run."
)
run_options = shared(
    hosts_option,
    click.option("--dry-run", "plan_only", is_flag=True, help="Probe and show the plan; change nothing."),
    input_options,
    click.option(
        "--only",
        type=click.Choice(["diagnose"]),
        help="Only diagnose and report the findings; plan and make no change.",
    ),
    choice_options,
    plan_options,
    click.option(
        "--settle", is_flag=True, help="First do what earlier runs still owe to these hosts, as `runbook settle` does."
    ),
    through_options,
    detach_option,
    changing_options,
    fleet_options,
)
again_from_file_option = click.option(
    "--inputs",
    "inputs_file",
    metavar="FILE",
    default="",
    type=FILE,
    help="Read such inputs from a YAML file, so that they are in no list of processes; -e overrides it.",
)
changed_inventory_option = click.option(
    "--changed-inventory", is_flag=True, help="Also take hosts whose entry in the inventory has changed since."
)
of_earlier_run = (
    hosts_option,
    click.option("--dry-run", "plan_only", is_flag=True, help="Probe and show what would be done; change nothing."),
    click.option(
        "-e",
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME=VALUE",
        help="Give a secret input of that run again, which is not recorded; repeatable.",
    ),
    again_from_file_option,
)
settle_options = shared(
    *of_earlier_run,
    click.option(
        "--force",
        is_flag=True,
        help="Settle also what a playbook owes that has changed since: by its steps as they are now.",
    ),
    changed_inventory_option,
    click.option(
        "--forget", metavar="RUN", default="", help="Remove the records of this run, and do nothing on hosts."
    ),
    changing_options,
    fleet_options,
)
resume_options = shared(
    *of_earlier_run,
    click.option(
        "--repeat",
        multiple=True,
        metavar="STEP",
        help="Send this step again, although it may have been done.",
    ),
    click.option(
        "--assume-done", multiple=True, metavar="STEP", help="Take this step as done, where nobody knows; repeatable."
    ),
    changed_inventory_option,
    click.option("--changed-playbook", is_flag=True, help="Go on although the playbook has changed since."),
    click.option("--undone", is_flag=True, help="Also take hosts on which that run was undone."),
    click.option("--force", is_flag=True, help="Run steps even if their finding is unknown. Dangerous."),
    through_options,
    changing_options,
    fleet_options,
)
expires_option = click.option(
    "--expires", metavar="DURATION", default="24h", show_default=True, help="How long the plan may be applied."
)
undo_options = shared(
    hosts_option,
    click.option("--dry-run", "plan_only", is_flag=True, help="Probe and show what would be undone; change nothing."),
    click.option(
        "--plan",
        metavar="FILE",
        type=FILE,
        default="",
        help="Save what would be undone, to be approved and applied (`runbook approve`, `apply`); change nothing.",
    ),
    expires_option,
    changed_inventory_option,
    through_options,
    changing_options,
    fleet_options,
)
diagnose_options = shared(
    hosts_option,
    inventory_option,
    printed_option,
    parallel_option,
    connection_options,
    timeout_option,
    not_ready_option,
)
monitor_options = shared(
    hosts_option,
    inventory_option,
    input_option,
    click.option(
        "--every", metavar="DURATION", default="5s", show_default=True, help="Time between two probes of a host."
    ),
    click.option("--once", is_flag=True, help="Probe once, report, and exit with the code of a run."),
    click.option(
        "--output",
        default="console",
        show_default=True,
        shell_complete=completes("outputs"),
        help="Format of stdout: console, or another one as of `run`; all but console probe once.",
    ),
    parallel_option,
    timeout_option,
    connection_options,
    not_ready_option,
)
prolog_options = shared(
    input_option,
    click.option(
        "--within",
        metavar="DURATION",
        default="5s",
        show_default=True,
        help="Time limit, the start of the program included; what has not answered by then is unknown.",
    ),
    click.option(
        "--unknown",
        type=click.Choice(["pass", "fail"]),
        default="pass",
        show_default=True,
        help="Exit code if nothing is known: pass: 0, with a line on stderr; fail: 2.",
    ),
    click.option(
        "--drain",
        is_flag=True,
        help="If a fault is known, drain this node in Slurm, unless it is drained or down already; probe it again.",
    ),
    printed_option,
    click.option("-v", "--verbose", is_flag=True, help="Also say on stderr what else was found, and what is unknown."),
)
