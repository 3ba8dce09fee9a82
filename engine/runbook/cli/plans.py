"""The commands of saved plans: plan, apply and approve."""

from __future__ import annotations

from typing import Any

import click

from runbook.cli.options import (
    CONTEXT,
    FILE,
    changing_options,
    choice_options,
    cluster_options,
    connection_options,
    expires_option,
    fleet_options,
    hosts_option,
    input_options,
    inventory_option,
    output_options,
    parallel_option,
    plan_options,
    playbook_argument,
    recorded_options,
    through_options,
    yes_option,
)

file_argument = click.argument("file", metavar="PLAN", type=FILE)
signers_option = click.option(
    "--allowed-signers",
    metavar="FILE",
    type=FILE,
    default="",
    help="Whose key is whose, as ssh-keygen has it. Default: $RUNBOOK_ALLOWED_SIGNERS, then beside the inventory.",
)


@click.command(context_settings=CONTEXT, short_help="Write the plans of a dry run to a file, to apply it later.")
@playbook_argument
@click.option("-o", "--out", metavar="FILE", type=FILE, required=True, help="Write the plan to this file (mode 600).")
@expires_option
@hosts_option
@input_options
@choice_options
@plan_options
@through_options
@fleet_options
@recorded_options
def plan(playbook: str, **options: Any) -> int:
    """Probe hosts as a dry run does, show what would be done, and write it to a file.

    Changes nothing. `runbook show FILE` shows the plan again, `runbook approve FILE` signs it, and
    `runbook apply FILE` does it, once. The file holds no secrets. Exit codes are those of `run --dry-run`.
    """
    from runbook.commands.options import made_from
    from runbook.commands.plan import PlanOptions, make_plan_file
    from runbook.reporting.terminal import Terminal

    return make_plan_file(playbook, made_from(PlanOptions, options), Terminal())


@click.command(context_settings=CONTEXT, short_help="Do what a saved plan shows, once, where it is still true.")
@file_argument
@click.option("--dry-run", "check", is_flag=True, help="Only say where the plan is still true; change nothing.")
@click.option(
    "--replan", is_flag=True, help="Show a new plan for hosts that have changed since, and ask (terminal only)."
)
@click.option(
    "--approval", multiple=True, metavar="FILE", type=FILE, help="A signature that lies elsewhere; repeatable."
)
@signers_option
@inventory_option
@input_options
@parallel_option
@cluster_options
@changing_options
@output_options
@connection_options
@recorded_options
def apply(file: str, **options: Any) -> int:
    """Do what the plan in PLAN shows, or less: on a terminal it is shown again, and asked for.

    Refused (exit 2, no connection is made): a plan that was edited, has expired, was applied already or lacks
    approvals; a playbook, inventory or input that has changed since. Every host is probed again: where more would be
    done than was shown, nothing is sent, and the host is `drifted` (exit 6); others go on.
    """
    from runbook.commands.apply import ApplyOptions, apply_plan
    from runbook.commands.options import made_from
    from runbook.reporting.terminal import Terminal

    return apply_plan(file, made_from(ApplyOptions, options), Terminal())


@click.command(context_settings=CONTEXT, short_help="Sign a saved plan with your SSH key, so that it may be applied.")
@file_argument
@click.option(
    "--key",
    metavar="FILE",
    type=FILE,
    default="",
    help="The key to sign with; of a .pub file the agent has it. Default: the first key in ~/.ssh.",
)
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    type=FILE,
    default="",
    help="Write the signature to this file. Default: PLAN.USER.sig.",
)
@signers_option
@yes_option
def approve(file: str, **options: Any) -> int:
    """Show the plan in PLAN, ask, and sign it: `runbook apply` counts signatures of people other than its maker.

    The signature is that of `ssh-keygen -Y sign -n runbook-plan`; `ssh-keygen -Y verify` checks it by hand.
    """
    from runbook.commands.approve import ApproveOptions, approve_plan
    from runbook.commands.options import made_from
    from runbook.reporting.terminal import Terminal

    return approve_plan(file, made_from(ApproveOptions, options), Terminal())
