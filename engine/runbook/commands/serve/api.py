"""The routes for programs: the webhook of Alertmanager, health, and the JSON API."""

from __future__ import annotations

from itertools import islice
from typing import Any

from starlette.responses import Response

from runbook.commands.serve.metrics import Metrics
from runbook.commands.serve.site import Call, Refused, Site, as_json
from runbook.commands.serve.wire import answer_tree, answers, proposal_tree, rule_tree, stored_tree, waiting
from runbook.errors import ConfigError
from runbook.values.units import time_span
from runbook.watch.alerts import payload
from runbook.watch.events import Held, Released
from runbook.watch.memory import EVERY_HOST

LARGEST_PAYLOAD = 8 * 1024 * 1024
"""The maximum number of bytes of a payload of Alertmanager."""
MOST_EVENTS = 500
"""The events of one answer."""


def alertmanager(metrics: Metrics) -> Any:
    """Return the handler of the webhook, which counts what it hears in *metrics*."""

    def handler(site: Site, call: Call) -> Response:
        try:
            read = payload(call.tree())
        except ConfigError as error:
            metrics.refused_payload()
            raise Refused(400, str(error)) from error
        except Refused:
            metrics.refused_payload()
            raise
        heard = site.desk.heard(read)
        metrics.heard(read, heard)
        counts = {
            "alerts": len(read.alerts),
            "taken": heard.taken,
            "unlistened": heard.unlistened,
            "unknown_hosts": heard.unknown_hosts,
            "truncated": read.truncated,
            "malformed": read.malformed,
        }
        return as_json(counts, 202)

    return handler


def healthz(site: Site, call: Call) -> Response:
    """Say whether the watcher is at work."""
    health = site.desk.health()
    return as_json({"ok": True}) if health.is_well else as_json({"ok": False, "why": health.why}, 503)


def inbox(site: Site, call: Call) -> Response:
    """List the plans that wait for a person."""
    desk = site.desk
    with desk.lock:
        desk.known.catch_up()
        plans = [proposal_tree(desk, plan) for plan in waiting(desk, site.clock())]
    return as_json({"plans": plans})


def rules(site: Site, call: Call) -> Response:
    """List the rules."""
    desk = site.desk
    with desk.lock:
        desk.known.catch_up()
        found = [rule_tree(desk, rule) for rule in desk.known.rules.values()]
    return as_json({"rules": found})


def last_answers(site: Site, call: Call) -> Response:
    """List the last answer of each rule about each host: why it acted, or did not."""
    desk = site.desk
    with desk.lock:
        desk.known.catch_up()
        found = [answer_tree(answer) for answer in answers(desk)]
    return as_json({"answers": found})


def log(site: Site, call: Call) -> Response:
    """List the events after a number, the oldest first."""
    after = call.number("after")
    with site.desk.lock:
        found = [stored_tree(stored) for stored in islice(site.desk.known.store.since(after), MOST_EVENTS)]
    return as_json({"events": found, "last": found[-1]["number"] if found else after})


def approve(site: Site, call: Call) -> Response:
    """Approve a plan, by its whole digest."""
    return as_json({"plan": call.path["digest"], "follows": approved(site, call)})


def reject(site: Site, call: Call) -> Response:
    """Refuse a plan, by its whole digest."""
    rejected(site, call)
    return as_json({"plan": call.path["digest"]})


def ask(site: Site, call: Call) -> Response:
    """Ask for a rule to look at a host."""
    asked(site, call)
    return as_json({"rule": call.path["rule"], "host": call.text("host")}, 202)


def hold(site: Site, call: Call) -> Response:
    """Let all rules leave a host alone for a time."""
    return as_json({"host": call.path["host"], "until": held(site, call)})


def release(site: Site, call: Call) -> Response:
    """End the hold of a host."""
    released(site, call)
    return as_json({"host": call.path["host"]})


def stop(site: Site, call: Call) -> Response:
    """Interrupt the run of a plan."""
    stopped(site, call)
    return as_json({"plan": call.path["digest"]})


def reset(site: Site, call: Call) -> Response:
    """Reset the breaker of a rule."""
    was_reset(site, call)
    return as_json({"rule": call.path["rule"]})


# ---- what people do, for the API and for the forms -------------------------------------------------------------------


def approved(site: Site, call: Call) -> str:
    """Append an approval, and return what follows from it.  Raises ConfigError, Refused."""
    desk, digest, now = site.desk, call.path["digest"], site.clock()
    with desk.lock:
        desk.known.catch_up()
        _refuse_part(site, digest, now)
        _, follows = desk.known.approve(digest, call.who.name, now)
    desk.wake()
    return follows


def rejected(site: Site, call: Call) -> None:
    """Append that a person refuses a plan.  Raises ConfigError, Refused."""
    desk, digest, now = site.desk, call.path["digest"], site.clock()
    why = call.text("why")
    with desk.lock:
        desk.known.catch_up()
        _refuse_part(site, digest, now)
        desk.known.reject(digest, call.who.name, why, now)
    desk.wake()


def _refuse_part(site: Site, digest: str, now: float) -> None:
    """Raise Refused if *digest* is the beginning of one only: a person decides about the very plan that was shown."""
    if site.desk.known.proposal(digest, now).digest != digest:
        raise Refused(400, "name the plan by its whole digest")


def asked(site: Site, call: Call) -> None:
    """Append that a person asks for a rule to look at a host.  Raises ConfigError, Refused."""
    desk, rule, host = site.desk, call.path["rule"], call.text("host")
    with desk.lock:
        desk.known.catch_up()
        name = desk.known.named(rule).name
        if host not in desk.hosts.get(name, ()):
            raise Refused(404, f"none of the hosts of the rule {name} is called {host!r}")
        desk.known.ask(name, host, call.who.name, site.clock())
    desk.wake()


def held(site: Site, call: Call) -> float:
    """Append a hold, and return the end of the one that lasts longest (seconds since the epoch).

    Raises ConfigError, Refused.
    """
    desk, now = site.desk, site.clock()
    host = call.path.get("host") or call.text("host")
    try:
        lasts = time_span(call.text("for"))
    except ConfigError as error:
        raise Refused(400, f"for: {error}") from error
    why = call.text("why")
    with desk.lock:
        desk.known.catch_up()
        if host != EVERY_HOST and not any(host in hosts for hosts in desk.hosts.values()):
            raise Refused(404, f"no rule has a host {host!r}")
        lasting = desk.known.hold(Held(at=now, host=host, until=now + lasts, by=call.who.name, why=why))
    desk.wake()
    return lasting.until


def released(site: Site, call: Call) -> None:
    """Append that the holds of a host are over.  Raises ConfigError if there is none."""
    desk, host, now = site.desk, call.path["host"], site.clock()
    with desk.lock:
        desk.known.catch_up()
        desk.known.release(Released(at=now, host=host, by=call.who.name))
    desk.wake()


def stopped(site: Site, call: Call) -> None:
    """Interrupt the run of a plan as Ctrl-C does: reads end, and a write runs on to its end.  Raises Refused."""
    digest = call.path["digest"]
    if not site.desk.stop(digest, call.who.name):
        raise Refused(409, "no run of this plan goes on on this machine")


def was_reset(site: Site, call: Call) -> None:
    """Append that a person resets a breaker.  Raises ConfigError."""
    desk = site.desk
    with desk.lock:
        desk.known.catch_up()
        desk.known.reset(call.path["rule"], call.who.name, site.clock())
    desk.wake()
