"""The commands that read the records of runs."""

from __future__ import annotations

from typing import Any

import click

from runbook.cli.echo import echo as tell
from runbook.cli.options import CONTEXT, output_options, printed_option, records_option, shared
from runbook.cli.strict_commands import StrictGroup

query_options = shared(
    click.option("--host", metavar="NAME", default="", help="Runs on this host; a glob such as gpu-* is possible."),
    click.option("--playbook", metavar="NAME", default="", help="Runs of this playbook."),
    click.option("--verdict", metavar="WORD", default="", help="Runs in which a host had this verdict."),
    click.option("--finding", metavar="NAME", default="", help="Runs in which a host had this finding."),
    click.option(
        "--since",
        metavar="TIME",
        default="",
        help="Runs since 2h (ago), 7d, yesterday, 2026-01-31 (UTC) or 2026-01-31T12:00:00Z.",
    ),
    click.option("--until", metavar="TIME", default="", help="Runs before this time, written in the same ways."),
    records_option,
)


@click.group(cls=StrictGroup, context_settings=CONTEXT, invoke_without_command=True)
@click.pass_context
def history(context: click.Context) -> None:
    """List, show, compare and verify the records of runs.

    Every run, also a dry run, is recorded in a journal of its own, which only you can read.
    """
    if context.invoked_subcommand is None:
        context.invoke(
            history_list, **{param.name: param.get_default(context) for param in history_list.params if param.name}
        )


@history.command("list", context_settings=CONTEXT)
@query_options
@click.option(
    "--limit", type=click.IntRange(0, 1_000_000), default=20, show_default=True, help="The newest so many; 0: all."
)
@printed_option
def history_list(records: str, output: str, **asked: Any) -> None:
    """List recorded runs, the newest first. Times are UTC."""
    from runbook.commands.history.listing import Query, list_text
    from runbook.commands.history.recording import records_folder

    tell(list_text(records_folder(records), Query(**asked), output))


@history.command("show", context_settings=CONTEXT)
@click.argument("run")
@click.argument("host", default="")
@records_option
def history_show(run: str, host: str, records: str) -> None:
    """Show one run; with HOST every step of that host.

    RUN is an id, its beginning, or `last`. With HOST every command is shown, too, with its output, and when each change
    was sent.
    """
    from runbook.commands.history.recording import records_folder
    from runbook.commands.history.showing import show_text

    tell(show_text(records_folder(records), run, host))


@history.command("diff", context_settings=CONTEXT)
@click.argument("before")
@click.argument("after")
@records_option
def history_diff(before: str, after: str, records: str) -> None:
    """Compare two runs, host by host.

    Shows which verdicts, findings and steps of AFTER differ from those of BEFORE. Each is an id, its beginning, or
    `last`.
    """
    from runbook.commands.history.recording import records_folder
    from runbook.commands.history.showing import diff_text

    tell(diff_text(records_folder(records), before, after))


@history.command("export", context_settings=CONTEXT)
@click.option(
    "--format", "form", type=click.Choice(["json", "jsonl", "csv"]), default="json", show_default=True, help="Format."
)
@query_options
def history_export(form: str, records: str, **asked: Any) -> None:
    """Print recorded runs as csv, json or jsonl.

    Each row is one host of one run. --host, --verdict and --finding choose the rows, too: other hosts of the same runs
    are left out. Times are UTC.
    """
    from runbook.commands.history.listing import Query, export_text
    from runbook.commands.history.recording import records_folder

    tell(export_text(records_folder(records), Query(**asked), form))


@history.command("verify", context_settings=CONTEXT)
@click.argument("run", default="")
@records_option
def history_verify(run: str, records: str) -> int:
    """Check that no record was edited or removed.

    The exit code is 1 where one was edited, cut, reordered or removed. The lines of a journal are chained by their
    digests, and a ledger has the last digest of each. Who can write both files again can forge them: keep a copy of the
    ledger elsewhere where that matters.
    """
    from runbook.commands.history.recording import records_folder
    from runbook.records.pruning import verified

    faults, summary = verified(records_folder(records), run)
    tell("\n".join([*faults, summary]))
    return int(bool(faults))


@history.command("prune", context_settings=CONTEXT)
@click.option("--older-than", metavar="DURATION", default="", help="Remove records of runs that ended before: 90d.")
@click.option("--keep-size", metavar="SIZE", default="", help="Remove the oldest until the rest is at most: 2G.")
@click.option("--dry-run", "plan_only", is_flag=True, help="Say how many would be removed; remove nothing.")
@records_option
def history_prune(older_than: str, keep_size: str, plan_only: bool, records: str) -> None:
    """Remove old records.

    A run that is still under way keeps its own.
    """
    from runbook.commands.history.recording import records_folder
    from runbook.records.pruning import expired, prune

    folder = records_folder(records)
    runs = expired(folder, older_than, keep_size)
    if not plan_only:
        prune(folder, runs)
    tell(f"{len(runs)} records {'would be removed' if plan_only else 'removed'} from {folder.path}")


@history.command("replay", context_settings=CONTEXT)
@click.argument("run")
@output_options
@records_option
def history_replay(run: str, records: str, **options: Any) -> int:
    """Make a report of a past run in any format.

    RUN is an id, its beginning, or `last`. Nothing is connected to: the record is read, and shown as if the run
    happened now.
    """
    from runbook.commands.history.recording import records_folder
    from runbook.commands.history.replaying import replay
    from runbook.commands.options import Output
    from runbook.reporting.terminal import Terminal

    return replay(records_folder(records), run, Output(**options), Terminal().say)
