"""The commands of the watcher: ``watch`` and what is below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from runbook.cli.options import (
    CONTEXT,
    FILE,
    inventory_option,
    parallel_option,
    records_option,
    through_options,
    unattended_connection_options,
)
from runbook.text.printable import printable

T = TypeVar("T", bound=Callable[..., Any])

rules_option = click.option(
    "--rules",
    metavar="FILE",
    type=FILE,
    multiple=True,
    help="A rule, or a folder of rules; repeatable. Default: ./watch.",
)
state_option = click.option(
    "--state",
    metavar="DIRECTORY",
    type=FILE,
    default="",
    help="Where the watcher keeps what it knows. Default: the user's own.",
)


def watch_options(command: T) -> T:
    for option in (state_option, inventory_option, rules_option):
        command = option(command)
    return command


def _made(options: dict[str, Any]) -> Any:
    from runbook.commands.options import made_from
    from runbook.commands.watch.options import WatchOptions

    return made_from(WatchOptions, options)


@click.group(context_settings=CONTEXT, short_help="Rules that act by themselves: why they do, and why not.")
def watch() -> None:
    """Say why rules act, or do not. A rule is a YAML file: what it listens to, what it may do then, and its limits.

    `runbook check watch/` validates rules; they change nothing before `runbook serve` runs.
    """


@watch.command("run", context_settings=CONTEXT)
@watch_options
@unattended_connection_options
@parallel_option
@through_options
@records_option
def watch_run(**options: Any) -> int:
    """Carry out the rules until Ctrl-C or SIGTERM, and print what is heard, seen, decided and done.

    Hosts whose key is not known are refused. A run that changes a host goes on by itself when this ends.
    """
    from runbook.commands.options import made_from
    from runbook.commands.watch.options import ServeOptions
    from runbook.commands.watch.running import watch

    return watch(made_from(ServeOptions, options))


@watch.command("explain", context_settings=CONTEXT)
@click.argument("rule")
@click.argument("host")
@watch_options
def watch_explain(rule: str, host: str, **options: Any) -> None:
    """Show each question that decides what RULE does about HOST, with its answer now. Connects to no host."""
    from runbook.commands.watch.explaining import explain

    click.echo(printable(explain(rule, host, _made(options))))


@watch.command("replay", context_settings=CONTEXT)
@click.argument("file", type=FILE)
@watch_options
def watch_replay(file: str, **options: Any) -> None:
    """Show what the rules would have decided over the events in FILE, of `runbook watch log --output jsonl`.

    Nothing is probed or changed: what a run that did not happen would have led to is not guessed.
    """
    from runbook.commands.watch.explaining import replay

    for line in replay(file, _made(options)):
        click.echo(printable(line))


@watch.command("log", context_settings=CONTEXT)
@click.option("--rule", default="", help="Only what is about this rule.")
@click.option("--host", default="", help="Only what is about this host.")
@click.option("--since", metavar="DURATION", default="", help="Only what is younger: 24h.")
@click.option("--output", type=click.Choice(["console", "jsonl"]), default="console", show_default=True, help="Format.")
@state_option
def watch_log(output: str, state: str, **query: str) -> None:
    """Show what the watcher has heard, seen, decided and done, the oldest first."""
    from runbook.commands.watch.known import LogQuery, log_lines
    from runbook.commands.watch.options import WatchOptions

    for line in log_lines(WatchOptions(state=state), LogQuery(**query), output):
        click.echo(line if output == "jsonl" else printable(line))


@watch.command("inbox", context_settings=CONTEXT)
@watch_options
def watch_inbox(**options: Any) -> None:
    """Show the plans that wait for a person, the oldest first."""
    import time

    from runbook.commands.watch.known import opened
    from runbook.commands.watch.wording import proposal_lines

    now = time.time()
    with opened(_made(options)) as known:
        waiting = [each for each in known.proposals() if now <= each.until]
        for plan in waiting:
            click.echo(printable("\n".join(proposal_lines(plan, now))))
        if not waiting:
            click.echo("no plan waits")


plan_argument = click.argument("plan")


@watch.command("approve", context_settings=CONTEXT)
@plan_argument
@watch_options
def watch_approve(plan: str, **options: Any) -> None:
    """Agree to the PLAN of a rule, by the beginning of its digest; the host is probed again before it is done."""
    import time

    from runbook.commands.watch.known import me, opened

    with opened(_made(options)) as known:
        made, follows = known.approve(plan, me(), time.time())
    click.echo(f"plan {made.digest[:8]}: approved by {made.by}; {follows}")


@watch.command("reject", context_settings=CONTEXT)
@plan_argument
@click.option("--why", default="", help="The reason, for others.")
@watch_options
def watch_reject(plan: str, why: str, **options: Any) -> None:
    """Refuse the PLAN of a rule: nothing is done for this episode of the fault."""
    import time

    from runbook.commands.watch.known import me, opened

    with opened(_made(options)) as known:
        refused = known.reject(plan, me(), why, time.time())
    click.echo(f"plan {refused.digest[:8]} for {refused.host} is refused")


@watch.command("ask", context_settings=CONTEXT)
@click.argument("rule")
@click.argument("host")
@watch_options
def watch_ask(rule: str, host: str, **options: Any) -> None:
    """Ask for RULE to look at HOST now. The fault need not have lasted; all other questions are asked as ever."""
    import time

    from runbook.commands.watch.event_store import is_watched
    from runbook.commands.watch.known import host_of_rule, me, opened

    made = _made(options)
    with opened(made) as known:
        known.ask(rule, host_of_rule(known, rule, host, made), me(), time.time())
        watched, place = is_watched(known.folder), known.folder.path
    if not watched:
        click.echo(f"no watcher is at work with the state in {place}: the next one will look", err=True)
    click.echo(f"{rule} will look at {host}; `runbook watch log --host {host}` shows what comes of it")


@watch.command("hold", context_settings=CONTEXT)
@click.argument("host")
@click.option("--for", "lasts", metavar="DURATION", required=True, help="How long: 4h, 7d.")
@click.option("--why", default="", help="The reason, for others.")
@watch_options
def watch_hold(host: str, lasts: str, why: str, **options: Any) -> None:
    """Let all rules leave HOST alone for a time. Runs of people are not held up by it."""
    from runbook.commands.watch.known import hold
    from runbook.text.timestamps import utc

    lasting = hold(_made(options), host, lasts, why)
    other = "" if lasting.host == host else f", by {lasting.by}'s word on all hosts"
    click.echo(f"{host} is left alone until {utc(lasting.until)}{other}")


@watch.command("release", context_settings=CONTEXT)
@click.argument("host")
@watch_options
def watch_release(host: str, **options: Any) -> None:
    """Let rules act on HOST again, before its hold is over."""
    from runbook.commands.watch.known import release
    from runbook.text.timestamps import utc

    if every := release(_made(options), host):
        click.echo(f"{host} is released, but {every.by} wants all hosts to be left alone until {utc(every.until)}")
    else:
        click.echo(f"rules may act on {host} again")


@watch.command("reset", context_settings=CONTEXT)
@click.argument("rule")
@watch_options
def watch_reset(rule: str, **options: Any) -> None:
    """Let RULE go on after its breaker has tripped, once the fleet has been well for its `quiet` time."""
    import time

    from runbook.commands.watch.known import me, opened

    with opened(_made(options)) as known:
        known.reset(rule, me(), time.time())
    click.echo(f"the breaker of {rule} is reset")


config_option = click.option(
    "--config", metavar="FILE", type=FILE, default="", help="Addresses, tokens and receivers of messages (mode 600)."
)


def _with_extra(call: Callable[[], Any]) -> Any:
    """Return what *call* returns; raises ConfigError if the extra ``serve`` is not installed."""
    from runbook.errors import ConfigError, Problem

    try:
        return call()
    except ModuleNotFoundError as error:
        words = f"this needs a package that is not installed ({error.name})"
        raise ConfigError(Problem(message=words, hint="pip install 'runbook-engine[serve]'")) from None


@click.command(context_settings=CONTEXT, short_help="Carry out rules, listen to alerts, and show a page.")
@config_option
@click.option("--listen", metavar="ADDRESS:PORT", default="", help="In place of that of --config; 127.0.0.1:8420.")
@watch_options
@unattended_connection_options
@parallel_option
@through_options
@records_option
def serve(**options: Any) -> int:
    """Carry out the rules as `runbook watch run` does, listen to Alertmanager, and show a page on which people approve.

    Without --config it listens on this machine only, and prints a token for this start. Needs the extra serve:

    \b
    pip install 'runbook-engine[serve]'
    """

    def begin() -> int:
        from runbook.commands.options import made_from
        from runbook.commands.serve.command import serve as serve_rules
        from runbook.commands.watch.options import ServeOptions

        return serve_rules(made_from(ServeOptions, options))

    code: int = _with_extra(begin)
    return code


@watch.command("token", context_settings=CONTEXT)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["alert", "view", "run", "approve", "admin"]),
    required=True,
    help="alert: send alerts; view: read; run: ask and hold; approve: also plans; admin: also reset breakers.",
)
def watch_token(name: str, role: str) -> None:
    """Make a token for NAME, a person or a program, and print the line for the settings of `runbook serve`."""

    def make() -> list[str]:
        from runbook.commands.serve.command import new_token_lines

        return new_token_lines(name, role)

    for line in _with_extra(make):
        click.echo(line)
