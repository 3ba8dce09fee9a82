"""The options that several commands share, and how a shell completes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


def shared(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator."""

    def add(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def completes(what: str, *, or_a_file: bool = False) -> Any:
    """A completion of words by the function *what* of ``engine.app.completion``."""

    def complete(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
        from engine.app import completion

        items = [CompletionItem(it) for it in completion.proposals(getattr(completion, what), context.params, begun)]
        return items or ([CompletionItem(begun, type="file")] if or_a_file else [])

    return complete


FILE = click.Path(readable=False)  # for the shell: any file's name completes it; reading says itself what is wrong
inventory_option = click.option(
    "-i", "--inventory", multiple=True, metavar="FILE", type=FILE,
    help="Inventory; may be given again. Default: $RUNBOOK_INVENTORY, then ./inventory/distributed_hosts.yaml.",
)  # fmt: skip
playbook_argument = click.argument("playbook", shell_complete=completes("playbooks", or_a_file=True))
not_ready_option = click.option("--include-not-ready", is_flag=True, help="Also take hosts whose status is not ready.")
hosts_option = click.option(
    "--hosts",
    metavar="PATTERN",
    default=None,
    shell_complete=completes("hosts"),
    help="Which hosts: all, a name, gpu-[01-16], gpu-*, a group, key=value; a,b is both, a!b is a without b.",
)
input_option = click.option(
    "-e",
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=completes("inputs"),
    help="Set an input of the playbook; may be given again.",
)
shell_timeout_option = click.option(
    "--shell-timeout", metavar="DURATION", default="20s", show_default=True,
    help="How long a shell may take to start on a host, once logged in: longer where a host is overloaded.",
)  # fmt: skip
secret_options = (
    click.option("-K", "--ask-become-pass", is_flag=True, help="Ask for the password that sudo wants on the hosts."),
    click.option(
        "--become-password-file",
        metavar="FILE",
        type=FILE,
        default="",
        help="Take that password from this file (mode 600).",
    ),
)
fleet_options = shared(
    inventory_option,
    click.option("--parallel", type=click.IntRange(1, 1000), default=32, show_default=True, help="Hosts at a time."),
    click.option(
        "--timeout",
        metavar="DURATION",
        default="",
        help="For each probe that sets none itself: 500ms, 30s, 5m or 2h. Default: 30s.",
    ),
    click.option("--deadline", metavar="DURATION", default="", help="For the whole run; nothing is begun after it."),
    click.option(
        "--yes", is_flag=True, help="Do not ask. Where there is no terminal to ask on, nothing is changed without it."
    ),
    click.option(
        "--output",
        default="console",
        show_default=True,
        shell_complete=completes("outputs"),
        help="console, json or jsonl, on stdout.",
    ),
    click.option(
        "--report",
        multiple=True,
        metavar="FILE",
        type=FILE,
        help="Also write this file; its ending says in which form: .json, .jsonl or .txt.",
    ),
    click.option("--strict-host-keys", is_flag=True, help="Refuse hosts whose SSH key is not known yet."),
    *secret_options,
    click.option(
        "--connect-timeout", metavar="DURATION", default="10s", show_default=True, help="For each address of a host."
    ),
    shell_timeout_option,
    not_ready_option,
)
run_options = shared(
    hosts_option,
    click.option("--dry-run", "plan_only", is_flag=True, help="Look, and say what would be done; nothing is changed."),
    input_option,
    click.option(
        "--inputs",
        "inputs_file",
        metavar="FILE",
        default="",
        type=FILE,
        help="Inputs from a YAML file; -e goes before it.",
    ),
    click.option(
        "--only",
        type=click.Choice(["diagnose"]),
        help="Only diagnose, and report the findings; no change is planned or made.",
    ),
    click.option(
        "--tags",
        multiple=True,
        metavar="TAG,...",
        shell_complete=completes("tags"),
        help="Make only changes that carry one of these tags.",
    ),
    click.option(
        "--skip-tags",
        multiple=True,
        metavar="TAG,...",
        shell_complete=completes("tags"),
        help="Leave out the steps that carry one of these.",
    ),
    click.option(
        "--force",
        is_flag=True,
        help="Let steps that end processes, or do worse, run although their finding is unknown. Think twice.",
    ),
    click.option("--detailed-exitcode", is_flag=True, help="Exit 3 when a dry run would change something."),
    fleet_options,
)
monitor_options = shared(
    hosts_option,
    inventory_option,
    input_option,
    click.option("--every", metavar="DURATION", default="5s", show_default=True, help="Between two probes of a host."),
    click.option("--once", is_flag=True, help="Look once, tell, and exit as a run would."),
    click.option(
        "--output",
        default="console",
        show_default=True,
        shell_complete=completes("outputs"),
        help="console; json and jsonl probe once.",
    ),
    click.option("--parallel", type=click.IntRange(1, 1000), default=32, show_default=True, help="Hosts at a time."),
    click.option(
        "--timeout", metavar="DURATION", default="", help="For each probe that sets none itself: 500ms, 30s, 5m or 2h."
    ),
    click.option("--strict-host-keys", is_flag=True, help="Refuse hosts whose SSH key is not known yet."),
    *secret_options,
    click.option(
        "--connect-timeout", metavar="DURATION", default="10s", show_default=True, help="For each address of a host."
    ),
    shell_timeout_option,
    not_ready_option,
)
