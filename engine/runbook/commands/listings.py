"""The commands that print lists and texts: ``show``, ``list``, ``hosts``, ``actions`` and ``schema``."""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from runbook.commands.history.recording import hosts_in_records
from runbook.commands.input_files import collections, playbook_files
from runbook.commands.options import Choosing
from runbook.commands.playbook_index import playbook_cards
from runbook.commands.show.layout import plain, width
from runbook.commands.sources import inventory_for
from runbook.errors import ConfigError
from runbook.extensions import ACTIONS, package_of
from runbook.inventory.groups import traits
from runbook.inventory.host_patterns import select
from runbook.language import keys
from runbook.language.schema_export import exported_schema
from runbook.plugins import discover
from runbook.protocols import Action
from runbook.text.field_descriptions import description
from runbook.text.name_ranges import fold
from runbook.text.suggestions import suggest
from runbook.values.inventory import Host, LeftOut
from runbook.values.types import Json, Unknown, plural


def scripts_text(action: Action) -> str:
    """Return every script that *action* can send, each under the name of its file, with its comments."""
    files = scripts_of(action.Args.__module__)
    if not files:
        return f"{action.name} sends no script; a plan shows the single commands that it sends\n"
    return _texts(files)


def every_script_text() -> str:
    """Return every script that runbook can run on a host, without the scripts of the lab."""
    return _texts([file for file in sorted(ENGINE.rglob("*.sh")) if file.relative_to(ENGINE).parts[0] != "lab"])


ENGINE = Path(__file__).parents[1]


def _texts(files: Sequence[Path]) -> str:
    texts = [f"# {file.relative_to(ENGINE.parent)}\n{file.read_text(encoding='utf-8').rstrip()}\n" for file in files]
    return "\n".join(texts)


def scripts_of(module: str) -> list[Path]:
    """Return the script files that *module* loads, and the script files of all definitions in runbook that it uses."""
    waiting = [(module, name) for name in _definitions(module)[0]]
    seen, found = set(waiting), dict[Path, None]()
    while waiting:
        where, name = waiting.pop(0)
        defined, imported, folder = _definitions(where)
        for node in (node for part in defined.get(name, ()) for node in ast.walk(part)):
            match node:
                case ast.Call(func=ast.Name("script"), args=[_, ast.Constant(str(file))]):
                    found[folder / f"{file}.sh"] = None
                case ast.Name(used) | ast.Attribute(attr=used):
                    next_one = imported.get(used, (where, used))
                    if next_one not in seen:
                        seen.add(next_one)
                        waiting.append(next_one)
    return list(found)


@cache
def _definitions(module: str) -> tuple[dict[str, list[ast.stmt]], dict[str, tuple[str, str]], Path]:
    """Return three things: the top-level definitions of *module* by name, its ``from`` imports, and its folder.

    The imports map a local name to the module and the name there.
    """
    spec = find_spec(module) if module.startswith("runbook.") else None
    if spec is None or spec.origin is None:
        return {}, {}, Path()
    path = Path(spec.origin)
    defined: dict[str, list[ast.stmt]] = {}
    imported: dict[str, tuple[str, str]] = {}
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        match statement:
            case ast.ImportFrom(module=str(source), names=names):
                imported |= {alias.asname or alias.name: (source, alias.name) for alias in names}
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                defined.setdefault(name, []).append(statement)
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                defined.setdefault(name, []).append(statement)
    return defined, imported, path.parent


def list_text(output: str = "console") -> str:
    """List the playbooks that can be named without a path, each with its purpose."""
    known = playbook_rows()
    if output == "json":
        return _json("playbooks", known)
    width = max((len(str(each["name"])) for each in known), default=0)
    lines = [f"{each['name']:{width}}  {each['about']}{_in_parentheses(str(each['from']))}" for each in known]
    return "\n".join(lines) or "no playbooks: neither in ./playbooks nor in the library"


def playbook_rows() -> list[dict[str, Json]]:
    """Return a row for each playbook that can be named without a path, as ``--output json`` prints it."""
    known: list[dict[str, Json]] = []
    for card, path in zip(playbook_cards(), playbook_files(), strict=True):
        why = f"cannot be used: {plural(card.mistakes, 'mistake')} (runbook check {card.name})"
        about, origin = why if card.mistakes else card.about, collections().get(path.parent, "")
        known.append({"name": card.name, "about": about, "path": str(path), "mistakes": card.mistakes, "from": origin})
    return known


def _in_parentheses(package: str) -> str:
    return f" (from {package})" if package else ""


def _json(what: str, rows: Sequence[Json], **more: Json) -> str:
    return json.dumps({"format": 1, what: list(rows), **more}, indent=1)


def hosts_text(pattern: str, choosing: Choosing, *, verbose: bool = False, output: str = "console") -> str:
    """List the hosts that *pattern* selects, and the others with the reason; *verbose*: with the connection of each
    host.
    """
    inventory = inventory_for(choosing, pattern)
    chosen = select(inventory, pattern, choosing.include_not_ready, may_be_none=True, recorded=hosts_in_records())
    if output == "json":
        left_out: list[Json] = [{"host": each.host, "why": each.why} for each in chosen.left_out]
        hosts = [_host_fields(host) for host in chosen.hosts]
        return _json("hosts", hosts, left_out=left_out, warnings=list(chosen.warnings))
    rows = [_host_row(host) for host in chosen.hosts]
    widths = [max(len(row[column]) for row in rows) for column in range(4)] if rows else [0] * 4
    lines = []
    for host, row in zip(chosen.hosts, rows, strict=True):
        cells = zip(row, (*widths, 0), strict=True)
        lines.append("  ".join(cell.ljust(width) for cell, width in cells).rstrip())
        lines += [f"    {line}" for line in _host_details(host)] if verbose else []
    taken = (
        f"{plural(len(rows), 'host')} taken: {fold([host.name for host in chosen.hosts])}" if rows else "no host taken"
    )
    lines += ["", taken] if rows else [taken]
    lines += [f"left out: {left_out.host} ({left_out.why})" for left_out in _by_reason(chosen.left_out)]
    lines += [f"warning: {warning}" for warning in chosen.warnings]
    return "\n".join(lines)


def _by_reason(left_out: Sequence[LeftOut]) -> list[LeftOut]:
    groups: dict[str, list[str]] = {}
    for dropped in left_out:
        groups.setdefault(dropped.why, []).append(dropped.host)
    return [LeftOut(host=fold(hosts), why=why) for why, hosts in groups.items()]


def _host_row(host: Host) -> tuple[str, str, str, str, str]:
    way = " then ".join(map(str, host.addresses)) or _way_inside(host) or host.transport
    return (
        host.name,
        f"{host.user}@{way}" if host.user else way,
        str(host.status),
        host.host_keys,
        " ".join(host.groups),
    )


def _way_inside(host: Host) -> str:
    """Return the container that *host* is, and its machine, in words; empty if it is a machine."""
    if not host.container:
        return ""
    return f"{host.container.engine} {host.container}" + (f" on {host.via.name}" if host.via else "")


def _host_fields(host: Host) -> dict[str, Json]:
    """Return the fields of *host* to show, keyed by name; never its variables, which may hold secrets."""
    return {
        "name": host.name,
        "addresses": [str(address) for address in host.addresses],
        "user": host.user,
        "transport": host.transport,
        "container": _way_inside(host),
        "status": str(host.status),
        "host_keys": str(host.host_keys),
        "groups": list(host.groups),
        "from": str(host.where),
    }


def _host_details(host: Host) -> list[str]:
    """Return the details of *host* from the inventory that its row does not show, each with its name."""
    jumps, via = [], host.via
    while via is not None:
        jumps.append(via.name)
        via = via.via
    found = {
        "jump": "" if host.container else " then ".join(reversed(jumps)) or host.proxy,
        "key": host.key,
        "gpu": host.vars.get("gpu") or host.vars.get("gpu_type") or "",
        "role": ", ".join(traits(host).get("role", ())),
        "note": host.vars.get("note") or "",
        "secrets": ", ".join(f"{secret.name} ({secret})" for secret in host.secrets),
        "from": str(host.where),
    }
    return [f"{name}: {value}" for name, value in found.items() if value]


def actions_text(name: str, *, scripts: bool = False) -> str:
    """List every action with its summary; with *name*, its arguments and fields, or the *scripts* that it sends to
    hosts.
    """
    actions = discover()
    if scripts and not name:
        return every_script_text()
    if not name:
        return "\n".join(
            f"{action.name:15} {_uses(action):9} {action.summary}{_in_parentheses(package_of(ACTIONS, action.name))}"
            for action in actions.values()
        )
    if name not in actions:
        raise ConfigError(f"no action {name!r} ({suggest(name, actions)})")
    action = actions[name]
    if scripts:
        return scripts_text(action)
    package = package_of(ACTIONS, name)
    origin = [f"It comes from {package}.", ""] if package else []
    lines = [f"{name}: {action.doc}", "", *origin, f"Used to {_uses(action)}.", "", "Arguments"]
    lines += _fields(action.Args) or ["  none"]
    lines += ["", "Fields that expressions can use"]
    lines += _fields(action.State) or ["  none"]
    for part in parts_of(action):
        lines += ["", f"Fields of a {part.__name__}", *_fields(part)]
    return "\n".join(lines)


def public_fields(kind: type[Any]) -> dict[str, Any]:
    """Return the fields of *kind* that authors write or expressions read, keyed by name, each with its type.

    Required fields come first.  ``private`` fields are left out, and also fields that contain the text of a file which
    another field names (``content_of``).
    """
    hints = get_type_hints(kind)
    hidden = ("private", "content_of")
    shown = [each for each in fields(kind) if not any(word in each.metadata for word in hidden)]
    shown.sort(key=lambda each: (each.default, each.default_factory) != (MISSING, MISSING))
    return {each.name: hints[each.name] for each in shown}


def parts_of(action: Action) -> list[type[Any]]:
    """Return the types with fields of their own that the arguments and the state of *action* contain."""
    found: list[type[Any]] = []
    waiting: list[Any] = [field for kind in (action.Args, action.State) for field in public_fields(kind).values()]
    while waiting:
        kind = waiting.pop(0)
        waiting += get_args(kind)
        if isinstance(kind, type) and is_dataclass(kind) and kind is not Unknown and kind not in found:
            found.append(kind)
            waiting += public_fields(kind).values()
    return found


def schema_text() -> str:
    """Return the JSON Schema of playbooks, with the arguments of every action."""
    return json.dumps(exported_schema(discover()), indent=2, ensure_ascii=False)


def keys_text() -> str:
    """List every key of a playbook, with its purpose."""
    exported: Any = exported_schema(discover())
    sections = {name: _keys_of(exported["properties"][name]["items"]) for name in ("diagnose", "remediate", "verify")}
    lines = ["A playbook"]
    lines += _about(keys.PLAYBOOK)
    lines += ["", "An input, in addition to the keywords of JSON Schema (type, enum, minimum, pattern ...)"]
    lines += _about(keys.INPUT)
    lines += ["", "A secret, of which one of these says where its value is"]
    lines += _about(keys.SECRET)
    lines += ["", "A step of diagnose, remediate or verify, in addition to its action (runbook actions lists them)"]
    for name, key in keys.STEP.items():
        allowed = [section for section, own in sections.items() if name in own]
        where = f" ({' and '.join(allowed)} only)" if 0 < len(allowed) < len(sections) else ""
        lines += _line(name, f"{key.about}{where}")
    lines += ["", "A finding"]
    lines += _about(keys.FINDING)
    lines += ["", "A group of findings, as one entry of findings"]
    lines += _about(keys.GROUP)
    lines += ["", "limits"]
    lines += _about(keys.LIMITS)
    return "\n".join([*lines, "", *textwrap.wrap(OF_VALUES, width())])


OF_VALUES = (
    "Durations are 500ms, 30s, 5m, 2h or a number of seconds. Expressions and {{ templates }} are Jinja's; they know "
    "inputs, host, run, every probe by its id, item in a step with each, and (in env and headers) secrets. "
    "A template on a line of its own leaves an empty line behind, as trim_blocks is off: write {%- ... %} to remove it."
)


def _keys_of(tree: Any) -> set[str]:
    """Return every key that a step of one section may have; *tree*: the schema of the step."""
    found = set(tree.get("properties", ()))
    for part in ("then", "else"):
        found |= _keys_of(tree[part]) if isinstance(tree.get(part), Mapping) else set()
    return found


def _about(table: Mapping[str, keys.Key]) -> list[str]:
    return [line for name, key in table.items() for line in _line(name, key.about)]


def _line(name: str, about: str) -> list[str]:
    return textwrap.wrap(about, width(), initial_indent=f"  {name:15} ", subsequent_indent=" " * 18)


def _uses(action: Action) -> str:
    if action.decide:
        return "change"
    return "wait" if action.waits else "probe"


def _fields(kind: type[Any]) -> list[str]:
    hints, lines = public_fields(kind), []
    by_name = {field.name: field for field in fields(kind)}
    for name in hints:
        field = by_name[name]
        default = "required" if field.default is MISSING and field.default_factory is MISSING else ""
        if field.default is not MISSING and field.default not in ("", (), ("", "")):
            default = f"default {plain(field.default)}"
        about = description(kind, field)
        lines.append(f"  {field.name:14} {_type(hints[field.name])}" + (f", {default}" if default else ""))
        lines += textwrap.wrap(about, width(), initial_indent="      ", subsequent_indent="      ") if about else []
    return lines


def _type(kind: Any) -> str:
    inner = get_args(kind)
    if get_origin(kind) is tuple:
        return f"list of {_type(inner[0])}"
    if str(get_origin(kind)) == "typing.Literal":
        return " | ".join(str(each) for each in inner if each != "")
    if isinstance(get_origin(kind), type) and issubclass(get_origin(kind), Mapping):
        return "mapping"
    if not inner:
        return "none" if kind is type(None) else str(getattr(kind, "__name__", kind))
    if {type(None), bool, str} <= set(inner):
        return "anything" if Unknown not in inner else "anything or Unknown"
    return " or ".join(sorted({_type(each) for each in inner}))
