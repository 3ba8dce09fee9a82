"""The command ``runbook mcp``."""

from __future__ import annotations

from typing import Any

import click

from runbook.cli.options import (
    CONTEXT,
    FILE,
    connection_options,
    hosts_option,
    inventory_option,
    not_ready_option,
    parallel_option,
    records_option,
    timeout_option,
)
from runbook.errors import ConfigError


@click.command(context_settings=CONTEXT, short_help="Let an assistant read and propose, over stdin and stdout.")
@inventory_option
@hosts_option
@not_ready_option
@parallel_option
@timeout_option
@click.option(
    "--deadline", metavar="DURATION", default="10m", show_default=True, help="Time limit of each call on hosts."
)
@connection_options
@records_option
@click.option(
    "--plans",
    metavar="DIR",
    type=FILE,
    default="",
    help="Directory of the saved plans. Default: $XDG_STATE_HOME/runbook/agent-plans.",
)
def mcp(**options: Any) -> int:
    """Serve an assistant by the Model Context Protocol: it finds playbooks, diagnoses hosts and makes plans.

    It changes no host. An assistant names only hosts of the inventory (with --hosts: only these), and playbooks by
    name. A plan that it makes is applied only after a person has approved it (`runbook approve`). Needs the extra mcp:
    pip install 'runbook-engine[mcp]'.
    """
    from runbook.commands.options import made_from

    try:
        from runbook.commands.mcp.server import serve
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "runbook":
            raise
        raise ConfigError("the package mcp is not installed: pip install 'runbook-engine[mcp]'") from None
    from runbook.commands.mcp.served import McpOptions

    return serve(made_from(McpOptions, options))
