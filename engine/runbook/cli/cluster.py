"""The commands about workers at the sites of hosts: ``cluster``, ``worker``, ``sites`` and ``attach``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from runbook.cli.options import (
    CONTEXT,
    FILE,
    cluster_option,
    output_options,
    parallel_option,
    recorded_options,
    unattended_connection_options,
)

T = TypeVar("T")


def _with_extra(call: Callable[[], T]) -> T:
    """Return what *call* returns; raises ConfigError if the extra ``cluster`` is not installed."""
    from runbook.commands.placed import lacking

    try:
        return call()
    except ModuleNotFoundError as error:
        raise lacking(error) from None


@click.group(context_settings=CONTEXT, short_help="Make the database through which sites are reached.")
def cluster() -> None:
    """Make the database through which workers at several sites carry out runs. Needs the extra cluster:

    \b
    pip install 'runbook-engine[cluster]'
    """


@cluster.command("init", context_settings=CONTEXT)
@cluster_option
@click.option("--site", multiple=True, metavar="NAME", help="Make this site, and a role for its workers; repeatable.")
@click.option("--client", multiple=True, metavar="ROLE", help="Let this role begin and follow runs; repeatable.")
def cluster_init(**options: Any) -> int:
    """Make or renew the schema in PostgreSQL, as the user who owns the database. May be repeated."""

    def init() -> int:
        from runbook.commands.cluster.worker import InitOptions, init_cluster
        from runbook.commands.options import made_from

        return init_cluster(made_from(InitOptions, options))

    return _with_extra(init)


@cluster.command("prune", context_settings=CONTEXT)
@cluster_option
@click.option("--older-than", metavar="DURATION", required=True, help="Remove runs that began before: 90d.")
def cluster_prune(cluster: str, older_than: str) -> int:
    """Remove old runs, and workers that were silent all the time, as the user who owns the database.

    Records on the machines of people and workers stay; runs that go on stay.
    """

    def prune() -> int:
        from runbook.commands.cluster.worker import prune_cluster

        return prune_cluster(cluster, older_than)

    return _with_extra(prune)


@click.command(context_settings=CONTEXT, short_help="Carry out, at a site, what is ordered from it.")
@cluster_option
@click.option("--site", default="", metavar="NAME", help="The site; an error if the role of PostgreSQL has another.")
@click.option("--name", default="", metavar="NAME", help="What this worker is called. Default: HOST-PID.")
@click.option(
    "--shards",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Parts of runs that are worked on at a time.",
)
@click.option(
    "--allowed-signers",
    default="",
    metavar="FILE",
    type=FILE,
    help="Whose orders are carried out: lines of NAME@HOST KEY. Default: ~/.config/runbook/allowed_signers.",
)
@click.option(
    "--records",
    default="",
    metavar="DIR",
    type=FILE,
    help="Directory of its records. Default: $XDG_STATE_HOME/runbook/worker.",
)
@parallel_option
@unattended_connection_options
def worker(**options: Any) -> int:
    """Work on the hosts of a site, for runs that people begin elsewhere with `runbook run --via cluster`.

    It reads SSH keys, passwords and `secrets:` here, carries out only orders that somebody in --allowed-signers has
    signed for this site, and asks for a permit before each write. Ends with a signal, after what it has begun.
    """

    def work() -> int:
        from runbook.commands.cluster.worker import WorkerOptions
        from runbook.commands.cluster.worker import worker as carry_out
        from runbook.commands.options import made_from

        return carry_out(made_from(WorkerOptions, options))

    return _with_extra(work)


@click.command(context_settings=CONTEXT, short_help="Show the sites of the cluster and their workers.")
@cluster_option
def sites(cluster: str) -> int:
    """Show each site: its workers and versions, what waits, what they refused. Exit code 1: a site has no worker."""

    def show() -> int:
        from runbook.commands.cluster.worker import show_sites

        return show_sites(cluster)

    return _with_extra(show)


@click.command(context_settings=CONTEXT, short_help="Follow a run that workers carry out.")
@click.argument("run")
@cluster_option
@output_options
@recorded_options
def attach(run: str, **options: Any) -> int:
    """Follow RUN, which workers carry out, to its end, and record it here. Ctrl-C ends the run itself."""

    def follow() -> int:
        from runbook.commands.cluster.client import AttachOptions
        from runbook.commands.cluster.client import attach as follow_run
        from runbook.commands.options import made_from
        from runbook.reporting.terminal import Terminal

        return follow_run(run, made_from(AttachOptions, options), Terminal())

    return _with_extra(follow)
