"""Diagnoses and plans for an assistant: hosts are probed by connections that cannot write."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Mapping
from dataclasses import replace

from runbook.codec import to_json
from runbook.commands.diagnose import diagnosis
from runbook.commands.input_files import find_playbook, read_playbook
from runbook.commands.joined_playbooks import Conclusion
from runbook.commands.mcp.answers import MAX_LONG_TEXT, Bounds, answer
from runbook.commands.mcp.served import AGENT, Caller, Served, playbook_name
from runbook.commands.options import GivenInputs, Output
from runbook.commands.order import Order
from runbook.commands.plan import PlanOptions, lifetime, made_plan, order_of_plan
from runbook.commands.plans.document import SavedPlan
from runbook.commands.plans.saved_text import plan_text
from runbook.commands.rests_on import origin_of
from runbook.commands.secret_masking import SecretMasking, secrets_on_command_line
from runbook.errors import Cancelled, ConfigError
from runbook.plugins import discover
from runbook.secrets.names import is_secret
from runbook.text.name_ranges import fold
from runbook.text.suggestions import suggest
from runbook.values.playbook import Playbook
from runbook.values.types import Json

MOST_PLANS = 500
"""The saved plans that the directory may hold: an assistant in a loop must not fill the disk."""
EXPIRES = "24h"
COMMAND = "mcp"
"""The command that the record of a run names."""


def diagnose(served: Served, hosts: str, caller: Caller) -> dict[str, Json]:
    """Probe *hosts* as ``runbook diagnose`` does, and return the conclusion about each.  Raises ConfigError."""
    options = replace(
        served.options, choosing=replace(served.options.choosing, hosts=hosts), output=Output(output="json")
    )
    with SecretMasking(lambda: secrets_on_command_line("", options.choosing.inventory)) as hiding:
        found = diagnosis(options, caller, hiding, lambda order: _permitted(served, order))
    caller.go_on()
    bounds = Bounds()
    fields: dict[str, Json] = {
        "run": found.run,
        "exit_code": found.exit_code,
        "hosts": [_conclusion(bounds, each) for each in found.conclusions],
        "left_out": [to_json(each) for each in found.left_out],
        "not_asked": list(found.not_asked),
        "said": bounds.value(list(caller.said), "said"),
    }
    return answer(bounds, fields)


def _permitted(served: Served, order: Order, book: Playbook | None = None) -> Order:
    """Return *order* as an assistant may have it carried out.  Raises ConfigError."""
    narrowed = served.narrowed(order, book)
    return replace(narrowed, origin=origin_of(narrowed, COMMAND))


def _conclusion(bounds: Bounds, each: Conclusion) -> dict[str, Json]:
    value = to_json({"cause": each.cause, "also": each.also, "why": each.why})
    return {"host": each.host, "verdict": each.verdict.value, **bounds.data(f"host {each.host}", value)}


def plan(served: Served, name: str, hosts: str, inputs: Mapping[str, Json], caller: Caller) -> dict[str, Json]:
    """Save the plan of the playbook *name* for *hosts*, and return it as text.  Raises ConfigError."""
    name = playbook_name(name)
    book = read_playbook(find_playbook(name), discover())
    given = _as_typed(book, inputs)
    if len(served.plans.names()) >= MOST_PLANS:
        raise ConfigError(f"{served.plans.path} holds {MOST_PLANS} plans: a person has to remove old ones first")
    options = _plan_options(served, hosts, given)
    with SecretMasking(lambda: secrets_on_command_line(name, options.choosing.inventory, options.given)) as hiding:
        order = _permitted(served, order_of_plan(name, options, caller), book)
        made = made_plan(order, name, options, caller, hiding, lifetime(EXPIRES), agent=AGENT, stdout=io.StringIO())
        if made.saved is None:
            raise Cancelled("no plan was written: the call was ended")
        return _written(served, made.saved, made.exit_code, caller)


def _plan_options(served: Served, hosts: str, inputs: tuple[str, ...]) -> PlanOptions:
    own = served.options
    return PlanOptions(
        choosing=replace(own.choosing, hosts=hosts),
        connecting=own.connecting,
        limits=own.limits,
        recording=own.recording,
        given=GivenInputs(inputs=inputs),
        plan_only=True,
        expires=EXPIRES,
    )


def _as_typed(book: Playbook, inputs: Mapping[str, Json]) -> tuple[str, ...]:
    """Return *inputs* as a command line has them, so that they are checked in the same way.

    Raises ConfigError for an unknown name, and for a secret: an assistant is given none, and gives none.
    """
    declared = {each.name: each for each in book.inputs}
    if unknown := [name for name in inputs if name not in declared]:
        raise ConfigError(*(f"{book.name} has no input {name!r} ({suggest(name, declared)})" for name in unknown))
    if hidden := [name for name, value in inputs.items() if is_secret(name, value) or declared[name].hides(value)]:
        names = ", ".join(hidden)
        raise ConfigError(f"{names}: an assistant gives no secret input; a person makes this plan with `runbook plan`")
    return tuple(f"{name}={each if isinstance(each, str) else json.dumps(each)}" for name, each in inputs.items())


def _written(served: Served, saved: SavedPlan, code: int, caller: Caller) -> dict[str, Json]:
    """Write *saved* to a file of its digest, and return the answer about it."""
    content, path = saved.text(), served.plans.path / f"{saved.digest}.json"
    try:
        served.plans.write(path.name, content)
    except OSError as error:
        raise ConfigError(f"the plan cannot be written to {path}: {error.strerror or error}") from error
    bounds, file = Bounds(MAX_LONG_TEXT), shlex.quote(str(path))
    hosts = fold([host.host for host in saved.result.hosts])
    lines: list[Json] = [f"runbook show {file}", f"runbook approve {file}", f"runbook apply {file}"]
    fields: dict[str, Json] = {
        "plan": saved.digest,
        "file": str(path),
        "made_by": str(saved.made),
        "expires_at": saved.expires_at,
        "run": saved.result.run,
        "exit_code": code,
        "hosts": [{"host": host.host, "verdict": host.verdict.value} for host in saved.result.hosts],
        "hosts_that_would_change": saved.changed_hosts,
        "approvals_needed": saved.signatures,
        "text": bounds.data(f"hosts {hosts}", plan_text(str(path), content.encode())),
        "a_person_types": lines if saved.changed_hosts else [],
        "left_out": [to_json(each) for each in saved.result.left_out],
        "said": bounds.value(list(caller.said), "said"),
    }
    return answer(bounds, fields)
