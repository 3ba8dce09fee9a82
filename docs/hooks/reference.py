"""Write the reference pages from the code: actions, language keys, commands, lint rules, faults and playbooks.

Everything here is read from what the program itself knows (``discover()``, the exported schema, ``--help``), so that
the pages cannot differ from it.  Nothing in this file needs mkdocs; ``build.py`` hands the pages to it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType, NoneType
from typing import Any, get_args, get_origin

import click
import yaml
from click.testing import CliRunner

from runbook.cli import cli
from runbook.commands.listings import parts_of, public_fields
from runbook.language import keys
from runbook.plugins import discover
from runbook.text.field_descriptions import description
from runbook.values.plan import Risk

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "playbooks"
SECTIONS = ("diagnose", "remediate", "verify")

# ---- what the program says of itself -------------------------------------------------------------------------------


@cache
def output_of(*words: str) -> str:
    """What ``runbook WORDS`` prints.  Raises RuntimeError where it fails."""
    result = CliRunner().invoke(cli, list(words), terminal_width=100)
    if result.exit_code:
        raise RuntimeError(f"runbook {' '.join(words)}: {result.output}")
    return result.output


@cache
def schema() -> Mapping[str, Any]:
    """The JSON Schema of playbooks."""
    import json

    found: Mapping[str, Any] = json.loads(output_of("schema"))
    return found


@cache
def step_keys(section: str) -> Mapping[str, Any]:
    """Every key that a step of *section* may have, actions included, with its schema."""

    def keys(tree: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(tree.get("properties", {}))
        for part in ("then", "else"):
            for key, value in keys(tree[part]).items() if isinstance(tree.get(part), Mapping) else ():
                found.setdefault(key, value)
        return found

    return keys(schema()["properties"][section]["items"])


# ---- actions -------------------------------------------------------------------------------------------------------


def use_of(action: Any) -> str:
    """What *action* is for: the group in which the list of actions has it."""
    if action.decide:
        return "change"
    return "wait" if action.waits else "probe"


def actions_index() -> str:
    """The page that lists every action."""
    groups = {"probe": "Probe", "change": "Change", "wait": "Wait or tell"}
    about = {
        "probe": "These read the state of a host. They never change it, in any section.",
        "change": "Under `diagnose` these only read. Under `remediate` they plan a change, make it, and probe again.",
        "wait": "These change nothing.",
    }
    lines = [
        "# Actions",
        "",
        "A step names one action. This page and those below it are generated from the code of the actions;",
        "`runbook actions` and `runbook actions NAME` print the same on a terminal.",
        "",
    ]
    for use, title in groups.items():
        lines += [f"## {title}", "", about[use], "", "| action | what it does | sections |", "|---|---|---|"]
        for action in discover().values():
            if use_of(action) == use:
                lines.append(
                    f"| [`{action.name}`]({action.name}.md) | {cell(action.summary)} | {sections_of(action.name)} |"
                )
        lines.append("")
    return "\n".join(lines)


def sections_of(name: str) -> str:
    """Where a playbook may have the action *name*, by the schema."""
    return ", ".join(section for section in SECTIONS if name in step_keys(section))


def action_page(action: Any) -> str:
    """The page of one action."""
    summary, _, rest = action.doc.partition("\n")
    lines = [f"# {action.name}", "", escaped(summary), "", escaped(rest.strip()), ""]
    lines += [f"- **Allowed in:** {sections_of(action.name)}", f"- **Changes the host:** {_changes(action)}"]
    if action.holds:
        lines.append("- **As an assertion:** can be asserted under `verify`")
    if action.scratch:
        lines.append(
            "- **Scratch:** its probe creates a file of its own and removes it; its step must say `scratch: true`"
        )
    lines += ["", "## Arguments", "", *_field_table(action.Args, required=True)]
    lines += ["", "## State fields", "", "What expressions can use, as `ID.FIELD` with the id of the step."]
    lines += ["A field of which the type says *or unknown* makes an expression unknown when it is touched and could"]
    lines += ["not be read.", "", *_field_table(action.State, required=False)]
    for part in parts_of(action):
        lines += ["", f"### {part.__name__}", "", *_field_table(part, required=False)]
    if example := example_of(action.name):
        lines += ["", "## Example", "", *example]
    return "\n".join(lines) + "\n"


def _changes(action: Any) -> str:
    if not action.decide:
        return "never"
    words = ", ".join(f"`{risk}`" for risk in risks_of(action))
    return f"under `remediate`; risk {words}" if words else "under `remediate`; the plan names the risk"


def risks_of(action: Any) -> list[str]:
    """The risks that a change of *action* can have, mildest first: those that ``decide`` names, and what it calls."""
    found = _risks(action.decide, set())
    return [str(risk) for risk in Risk if risk.name in found]


def _risks(function: Any, seen: set[Any]) -> set[str]:
    if function in seen:
        return set()
    seen.add(function)
    found: set[str] = set()
    codes: list[CodeType] = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        if "Risk" in code.co_names:
            found |= set(code.co_names) & set(Risk.__members__)
        values = [function.__globals__.get(name) for name in code.co_names]
        modules = [value for value in values if isinstance(value, ModuleType)]
        values += [getattr(module, name, None) for module in modules for name in code.co_names]
        for value in values:
            if isinstance(value, FunctionType) and value.__module__.startswith("runbook"):
                found |= _risks(value, seen)
            elif isinstance(value, dict):
                found |= {risk.name for risk in _flat(value.values()) if isinstance(risk, Risk)}
    return found


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        yield from _flat(value) if isinstance(value, tuple) else (value,)


def _field_table(kind: type[Any], *, required: bool) -> list[str]:
    hints = public_fields(kind)
    by_name = {field.name: field for field in fields(kind)}
    shown = [by_name[name] for name in hints]
    if not shown:
        return ["None."]
    title = "| name | type | default | about |" if required else "| field | type | about |"
    lines = [title, "|---|---|---|---|" if required else "|---|---|---|"]
    for field in shown:
        about = cell(description(kind, field))
        name, type_ = f"`{field.name}`", type_of(hints[field.name])
        if required:
            lines.append(
                f"| {name} | {type_}{_bounds(field.metadata)} | {default_of(field, hints[field.name])} | {about} |"
            )
        else:
            lines.append(f"| {name} | {type_} | {about} |")
    return lines


def _bounds(metadata: Mapping[str, Any]) -> str:
    low, high = metadata.get("minimum"), metadata.get("maximum")
    words = [f"{low} to {high}"] if low is not None and high is not None else []
    words += [f"at least {low}"] if low is not None and high is None else []
    words += [f"at most {high}"] if high is not None and low is None else []
    words += [f"at least {metadata['min_items']}"] if metadata.get("min_items") else []
    return f" ({', '.join(words)})" if words else ""


def default_of(field: Any, kind: Any) -> str:
    """The default of an argument as a playbook would write it."""
    if field.default is MISSING:
        return "**required**" if field.default_factory is MISSING else "empty"
    value = field.default
    if value is None or value == "" or value == ():
        return "none" if value is None else "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if getattr(kind, "__name__", "") == "Duration":
        return f"`{value:g}s`"
    if isinstance(value, Enum):
        return f"`{value.value}`"
    if isinstance(value, tuple):
        return "`[" + ", ".join(map(str, value)) + "]`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


WORDS = {
    "str": "text",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "Duration": "duration (seconds)",
    "Size": "size (bytes)",
    "ProcessPattern": "process pattern",
    "Regex": "regular expression",
}


def type_of(kind: Any) -> str:
    """*kind* in the words of a playbook."""
    inner, origin = get_args(kind), get_origin(kind)
    if origin is tuple:
        return f"list of {type_of(inner[0])}"
    if str(origin) == "typing.Literal":
        return " \\| ".join(f"`{value}`" for value in inner if value != "")
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"mapping of {type_of(inner[0])} to {type_of(inner[1])}"
    if not inner:
        name = str(getattr(kind, "__name__", kind))
        if isinstance(kind, type) and is_dataclass(kind):
            return f"[{name}](#{name.lower()})"
        return "none" if kind is NoneType else WORDS.get(name, name)
    known = [part for part in inner if getattr(part, "__name__", "") != "Unknown"]
    unknown = " or unknown" if len(known) < len(inner) else ""
    if {NoneType, bool, str} <= set(known):
        return f"anything{unknown}"
    return " or ".join(dict.fromkeys(type_of(part) for part in known)) + unknown


def example_of(name: str) -> list[str]:
    """The shortest step of the library that takes the action *name*, as it is written; nothing where none does.

    One that changes goes before one that only reads, where *name* can do both.
    """
    found = []
    for path in sorted(LIBRARY.glob("*.yaml")):
        for section in SECTIONS:
            for step in steps_in(path.read_text(), section):
                if re.search(rf"^  (- |  ){name}:", step, flags=re.MULTILINE) and not re.search(r": [&*]\w", step):
                    reads = section != "remediate" and discover()[name].decide is not None
                    found.append((reads, len(step), path.stem, section, step))
    if not found:
        return []
    *_, book, section, step = min(found)
    return [
        f"From the library playbook [`{book}`](../playbooks.md#{book}), section `{section}`:",
        "",
        "```yaml",
        *step.splitlines(),
        "```",
    ]


def steps_in(text: str, section: str) -> list[str]:
    """The steps of one section of a playbook, each as it is written."""
    body = re.search(rf"^{section}:\n((?:[ #].*\n|\n)*)", text + "\n", flags=re.MULTILINE)
    if not body:
        return []
    steps = re.split(r"^(?=  - )", body[1], flags=re.MULTILINE)
    return [re.sub(r"(\n  #.*|\n\s*)+$", "\n", step) for step in steps if step.startswith("  - ")]


# ---- tables for the pages that people wrote ------------------------------------------------------------------------


def table_of(name: str) -> str:
    """The generated part that a page asks for by ``<!-- generated: NAME -->``."""
    match name.split():
        case ["risks"]:
            return ", ".join(f"`{risk}`" for risk in Risk)
        case ["rules"]:
            return _rules()
        case ["faults"]:
            rows = re.findall(r"^(\w+) +(.+)$", output_of("lab", "faults").split("\n\n")[0], flags=re.MULTILINE)
            return table(("fault", "what such a host has"), [(f"`{fault}`", cell(about)) for fault, about in rows])
        case ["commands"]:
            return _commands()
        case ["playbooks"]:
            return _playbooks()
    raise RuntimeError(f"no generated part is called {name!r}")


def filled(text: str) -> str:
    """*text* of a page, with each ``<!-- generated: NAME -->`` replaced by that part."""
    return re.sub(r"<!-- generated: (.+?) -->", lambda found: table_of(found[1]), text)


def refreshed(text: str) -> str:
    """*text* of a page with each list of keys, from ``<!-- keys: NAME -->`` to ``<!-- end -->``, made new."""
    return KEYS.sub(lambda found: f"<!-- keys: {found[1]} -->\n\n{keys_of(found[1])}\n\n<!-- end -->", text)


KEYS = re.compile(r"<!-- keys: (\w+) -->\n.*?<!-- end -->", re.DOTALL)
WIDTH = 140
"""Columns of a line of a page."""


def keys_of(name: str) -> str:
    """The keys of one mapping of the language as a list: the form of each value, where it may stand, its sentence."""
    properties = schema()["properties"]
    match name:
        case "playbook":
            return _key_list(keys.PLAYBOOK, properties)
        case "input":
            return _key_list(keys.INPUT, properties["inputs"]["additionalProperties"]["properties"])
        case "secret":
            return _key_list(keys.SECRET, properties["secrets"]["additionalProperties"]["properties"])
        case "step":
            return _key_list(keys.STEP, {key: value for part in SECTIONS for key, value in step_keys(part).items()})
        case "finding":
            return _key_list(keys.FINDING, properties["findings"]["items"]["else"]["properties"])
        case "group":
            return _key_list(keys.GROUP, properties["findings"]["items"]["then"]["properties"])
        case "limits":
            return _key_list(keys.LIMITS, properties["limits"]["properties"])
        case "defaults":
            inner = properties["defaults"]["properties"]
            return _key_list({key: keys.STEP[key] for key in inner}, inner)
        case "samples":
            inner = step_keys("diagnose")["samples"]["properties"]
            return "\n".join(f"- `{key}` ({form_of(value)})" for key, value in inner.items())
    raise RuntimeError(f"the language has no keys of {name!r}")


def _key_list(table: Mapping[str, keys.Key], values: Mapping[str, Any]) -> str:
    return "\n".join(_key_item(key, form_of(values[name])) for name, key in table.items())


def _key_item(key: keys.Key, form: str) -> str:
    """``- `key` (form; notes): sentence``."""
    places = [part for part in SECTIONS if isinstance(key, keys.StepKey) and key.name in step_keys(part)]
    few = f"only {' and '.join(places)}" if 0 < len(places) < len(SECTIONS) else ""
    aside = "; ".join(filter(None, (form.replace(" \\|", ","), few, "**required**" if key.required else "")))
    head = f"- `{key.name}` ({aside})" if aside else f"- `{key.name}`"
    return textwrap.fill(
        f"{head}: {escaped(key.about)}",
        WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def form_of(tree: Mapping[str, Any]) -> str:
    """What a value may be, by its schema, in a few words."""
    if "enum" in tree:
        return " \\| ".join(f"`{value}`" for value in tree["enum"])
    if "properties" in tree:
        return "mapping"
    if "const" in tree:
        return f"`{tree['const']}`"
    pattern = str(tree.get("pattern", ""))
    for mark, words in (("(ms|s|m|h|d)", "duration"), ("%?", "number or percentage"), (r"\{\{", "template")):
        if mark in pattern:
            return words
    for key in ("anyOf", "oneOf"):
        if key in tree:
            forms = list(dict.fromkeys(form_of(part) for part in tree[key]))
            if "duration" in forms:
                forms = [form for form in forms if form != "number"]
            return " or ".join(form for form in forms if form)
    kind = tree.get("type", "")
    if isinstance(kind, list):
        return " or ".join(_word(name) for name in kind)
    if kind == "array":
        inner = form_of(tree.get("items", {}))
        return f"list of {inner}" if inner not in ("", "mapping") else "list"
    return _word(kind) if kind else ("template" if "$ref" in tree else "")


def _word(kind: str) -> str:
    return {"string": "text", "object": "mapping", "array": "list"}.get(kind, kind)


def _rules() -> str:
    lines: list[str] = []
    for block in output_of("check", "--rules").strip().split("\n\n"):
        first, *rest = block.splitlines()
        if not rest:
            continue
        about, _, example = "\n".join(rest).partition("  for example:\n")
        code = "\n".join(line[4:] for line in example.splitlines())
        lines += [f"### {first}", "", escaped(" ".join(about.split())), "", "```text", code, "```", ""]
    return "\n".join(lines)


def _commands() -> str:
    lines: list[str] = []
    for words in commands():
        lines += [f"## runbook {' '.join(words)}", "", "```text", output_of(*words, "--help").rstrip(), "```", ""]
    return "\n".join(lines)


def commands() -> Iterator[tuple[str, ...]]:
    """Every command and sub-command, by its words."""
    for name, command in sorted(cli.commands.items()):
        if isinstance(command, click.Group):
            yield from ((name, inner) for inner in sorted(command.commands))
        else:
            yield (name,)


def _playbooks() -> str:
    books = [
        yaml.load(path.read_text(), yaml.BaseLoader)  # noqa: S506 - texts, lists and mappings, as they are written
        for path in sorted(LIBRARY.glob("*.yaml"))
    ]
    lines = [_symptoms(books), ""]
    for book in books:
        lines += [f"## {book['name']}", "", escaped(str(book.get("about", ""))), ""]
        lines += [f"Default hosts: `{book['hosts']}`.", ""] if book.get("hosts") else []
        rows = []
        for name, given in (book.get("inputs") or {}).items():
            default = "**required**" if given.get("required") == "true" else _shown(given.get("default"))
            rows.append((f"`{name}`", default, cell(str(given.get("about", "")))))
        lines += [table(("input", "default", "about"), rows), ""] if rows else []
        steps = [str(step.get("name") or step.get("id")) for step in book.get("remediate") or ()]
        lines += ["It can change, in this order:", "", *(f"1. {escaped(step)}" for step in steps), ""] if steps else []
        lines += [] if steps else ["It changes nothing.", ""]
        lines += [f"`runbook show {book['name']}` says what it finds and does.", ""]
    return "\n".join(lines)


def _symptoms(books: Sequence[Mapping[str, Any]]) -> str:
    """The texts of errors, in their order, each with the playbook for it; patterns are for `runbook find`."""
    rows = [
        (f"`{text}`", f"[{book['name']}](#{book['name']})")
        for book in books
        for text in book.get("symptom") or ()
        if isinstance(text, str)
    ]
    return table(("what you read", "playbook"), sorted(rows, key=lambda row: row[0].lower()))


def _shown(value: Any) -> str:
    """The default of an input as its playbook writes it, shortened."""
    if not value:
        return "empty"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    short = text if len(text) <= 60 else f"{text[:57]}..."
    return "`" + short.replace("|", "\\|") + "`"


# ---- Markdown ------------------------------------------------------------------------------------------------------


def table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table of *rows*, whose cells are Markdown already."""
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def escaped(text: str) -> str:
    """Plain *text*, of which Markdown and HTML make nothing, but for `code`."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part
        if part.startswith("`")
        else re.sub(r"([*_<>\[\]])", r"\\\1", part).replace("\\<", "&lt;").replace("\\>", "&gt;")
        for part in parts
    )


def cell(text: str) -> str:
    """Plain *text* for a cell of a table."""
    return escaped(" ".join(text.split())).replace("|", "\\|")


def unescaped(html: str) -> str:
    """The *html* of a page, with `|` where Python's Markdown leaves ``\\|`` in the code of a table's cell."""
    return re.sub(r"<td.*?</td>", lambda found: found[0].replace("\\|", "|"), html, flags=re.DOTALL)


if __name__ == "__main__":  # what `make docs` writes into the pages of the checkout
    for page in sorted((ROOT / "docs").glob("*.md")):
        if (made := refreshed(page.read_text())) != page.read_text():
            page.write_text(made)
