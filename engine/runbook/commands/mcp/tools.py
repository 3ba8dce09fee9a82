"""The tools that an assistant can call: each reads or proposes, and none applies, approves or edits anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runbook.commands.find import MAX_SEARCHED_BYTES, playbooks_in_text
from runbook.commands.listings import playbook_rows
from runbook.commands.mcp import proposals, recorded
from runbook.commands.mcp.answers import MAX_LONG_TEXT, Bounds, answer
from runbook.commands.mcp.served import Caller, Served, playbook_name
from runbook.commands.show import show_text
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.language.playbook_schema import violations
from runbook.text.suggestions import suggest
from runbook.values.types import Json

Arguments = Mapping[str, Any]
Call = Callable[[Served, Arguments, Caller], dict[str, Json]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool: its name, its description for the assistant, and its arguments as JSON Schema."""

    name: str
    about: str
    properties: Mapping[str, Json]
    required: tuple[str, ...] = ()
    call: Call

    @property
    def schema(self) -> dict[str, Json]:
        """Return the JSON Schema of the arguments."""
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }


def _text(about: str, most: int = 500) -> dict[str, Json]:
    return {"type": "string", "description": about, "minLength": 1, "maxLength": most}


def _find(_: Served, given: Arguments, __: Caller) -> dict[str, Json]:
    bounds = Bounds()
    return answer(bounds, {"found": bounds.data("the text that was searched", playbooks_in_text(given["error"]))})


def _list(_: Served, __: Arguments, ___: Caller) -> dict[str, Json]:
    bounds = Bounds()
    return answer(bounds, {"playbooks": bounds.value(list(playbook_rows()), "playbooks")})


def _show(served: Served, given: Arguments, _: Caller) -> dict[str, Json]:
    if ("playbook" in given) is ("run" in given):
        raise ConfigError("name either a playbook or a run")
    if "host" in given and "run" not in given:
        raise ConfigError("a host is shown of a run: name the run, too")
    if "run" in given:
        run, host = given["run"], given.get("host")
        return recorded.run_evidence(served, run, host) if host else recorded.run_record(served, run)
    bounds, name = Bounds(MAX_LONG_TEXT), playbook_name(given["playbook"])
    text = show_text(name, verbose=given.get("verbose", False))
    return answer(bounds, {"playbook": name, "text": bounds.value(text, "text")})


def _diagnose(served: Served, given: Arguments, caller: Caller) -> dict[str, Json]:
    return proposals.diagnose(served, given["hosts"], caller)


def _plan(served: Served, given: Arguments, caller: Caller) -> dict[str, Json]:
    return proposals.plan(served, given["playbook"], given["hosts"], given.get("inputs", {}), caller)


def _history(served: Served, given: Arguments, _: Caller) -> dict[str, Json]:
    asked = {name: value for name, value in given.items() if name != "limit"}
    return recorded.history(served, asked, given.get("limit", 20))


_HOSTS = _text("A pattern of hosts of the inventory: all, a name, gpu-[01-16], gpu-*, a group; a,b is both.")
_PLAYBOOK = _text("The name of a playbook, as the tool `list` gives it; no path.", 200)

TOOLS = (
    Tool(
        name="find",
        about="Name the playbooks for an error text or a piece of a log. Connects to no host.",
        properties={"error": _text("The error text, or lines of a log.", MAX_SEARCHED_BYTES)},
        required=("error",),
        call=_find,
    ),
    Tool(name="list", about="List the playbooks, each with its purpose.", properties={}, call=_list),
    Tool(
        name="show",
        about="Show a playbook in words; or a recorded run, with `host` every step of one of its hosts.",
        properties={
            "playbook": _PLAYBOOK,
            "verbose": {"type": "boolean", "description": "Show every argument, condition and advice of the playbook."},
            "run": _text("The id of a recorded run, as the tool `history` gives it.", 60),
            "host": _text("A host of that run.", 300),
        },
        call=_show,
    ),
    Tool(
        name="diagnose",
        about="Probe hosts by SSH with every playbook about hosts, and name the cause and the playbook to go on with. "
        "Changes nothing on the hosts; the run is recorded.",
        properties={"hosts": _HOSTS},
        required=("hosts",),
        call=_diagnose,
    ),
    Tool(
        name="plan",
        about="Probe hosts by SSH and save the plan of a playbook for them. Changes nothing on the hosts. Only a "
        "person can approve and apply the plan: give the person the lines of `a_person_types`.",
        properties={
            "playbook": _PLAYBOOK,
            "hosts": _HOSTS,
            "inputs": {
                "type": "object",
                "description": "The inputs of the playbook, by name, in JSON. No secrets.",
                "maxProperties": 100,
            },
        },
        required=("playbook", "hosts"),
        call=_plan,
    ),
    Tool(
        name="history",
        about="List recorded runs, the newest first.",
        properties={
            "host": _text("Runs on this host; a glob is possible.", 300),
            "playbook": _text("Runs of this playbook.", 200),
            "verdict": _text("Runs in which a host had this verdict.", 50),
            "finding": _text("Runs in which a host had this finding.", 200),
            "since": _text("Runs since 2h (ago), 7d, yesterday or 2026-01-31 (UTC).", 50),
            "until": _text("Runs before this time.", 50),
            "limit": {"type": "integer", "minimum": 1, "maximum": recorded.MOST_RUNS},
        },
        call=_history,
    ),
)


def called(served: Served, name: str, arguments: Arguments, caller: Caller) -> dict[str, Json]:
    """Call the tool *name*.  Raises ConfigError, also for arguments that do not fit its schema."""
    known = {tool.name: tool for tool in TOOLS}
    if name not in known:
        raise ConfigError(Problem(message=f"there is no tool {name!r}", hint=suggest(name, known)))
    tool = known[name]
    if wrong := violations(dict(arguments), tool.schema):
        raise ConfigError(*(f"{name}: {words}" for words in wrong))
    return tool.call(served, arguments, caller)
