"""Read hosts from the programs that know them: ``-i kubectl:CONTEXT``, ``docker:``, ``scontrol:``, ``ansible:FILE``.

The program runs on this machine, as this user, with this user's configuration, and is only asked for a list.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.foreign_files import MOVE_IT, refuse_foreign
from runbook.text.suggestions import nearest, suggest

_CONTEXT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@-]*")
_VALUE = re.compile(r"[A-Za-z0-9_*][^\s]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A source as it was written: ``kubectl:lab,nodes,selector=gpu=yes``."""

    source: str
    context: str
    """The words before the first comma."""
    options: Mapping[str, str]
    """The words after it; one without ``=`` has an empty value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A command that lists hosts, and how its output becomes the text of an inventory."""

    words: tuple[str, ...]
    text: Callable[[str], str]
    folder: str = "/"
    """The working directory of the program: none where another user's configuration may lie."""


def is_source(word: str) -> bool:
    """Whether *word* names a program that lists hosts, and not a file."""
    return word.partition(":")[0] in _SOURCES and ":" in word


def source_meant(word: str) -> str:
    """Return a hint with the source that *word* resembles; empty if it resembles none."""
    name, sign, rest = word.partition(":")
    near = nearest(name, _SOURCES) if sign else None
    return f"did you mean {near}:{rest}?" if near else ""


def lasting_name(word: str) -> str:
    """Return the name by which a record names the inventory *word*: a source as it is, a file by its absolute path."""
    return word if is_source(word) else str(Path(word).absolute())


def split_at_colons(text: str) -> list[str]:
    """Return the inventories in *text*, which are separated by colons; a source has one of its own."""
    parts: list[str] = []
    for part in text.split(os.pathsep):
        if parts and parts[-1] in _SOURCES:
            parts[-1] += f":{part}"
        else:
            parts.append(part)
    return [part for part in parts if part]


def known_source_text(word: str) -> str:
    """Return what the source *word* has answered; empty if it was not asked yet, and it is not asked for this."""
    from runbook.inventory.listing_program import known_list  # only where a source is given

    asked = _asked(word)
    printed = known_list(asked.words, asked.folder)
    return "" if printed is None else _text(word, asked, printed)


def source_text(word: str) -> str:
    """Return the list of hosts that the source *word* prints now, as text; asked once.  Raises ConfigError."""
    from runbook.inventory.listing_program import printed_list  # only where a source is given

    asked = _asked(word)
    return _text(word, asked, printed_list(word, asked.words, asked.folder))


def _asked(word: str) -> Asked:
    name, _, rest = word.partition(":")
    return _SOURCES[name](_query(word, rest))


def _text(word: str, asked: Asked, printed: str) -> str:
    try:
        return asked.text(printed)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{word}: {asked.words[0]} printed no list of hosts") from error


def _query(source: str, rest: str) -> Query:
    if source.startswith("ansible:"):  # a file's name may have commas
        return Query(source=source, context=rest, options={})
    context, *words = rest.split(",")
    options: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        if not key or key in options or (value and not _VALUE.fullmatch(value)):
            raise ConfigError(f"{source}: {word!r} is no option of a source, or is given twice")
        options[key] = value
    if context and not _CONTEXT.fullmatch(context):
        raise ConfigError(f"{source}: {context!r} is no name of a context")
    return Query(source=source, context=context, options=options)


def _check_options(query: Query, with_value: tuple[str, ...], without: tuple[str, ...] = ()) -> None:
    for key, value in query.options.items():
        if key not in (*with_value, *without):
            raise ConfigError(f"{query.source}: unknown option {key} ({suggest(key, (*with_value, *without))})")
        if bool(value) != (key in with_value):
            raise ConfigError(f"{query.source}: {key} {'needs a value' if key in with_value else 'has no value'}")


def _kubectl(query: Query) -> Asked:
    """Ask for pods, or for nodes; of one namespace, of the context's own, or of all (``namespace=*``)."""
    from runbook.inventory.kubernetes_objects import tree_of

    _check_options(query, ("namespace", "selector"), ("nodes", "pods"))
    if {"nodes", "pods"} <= query.options.keys():
        raise ConfigError(f"{query.source}: nodes, or pods: give two sources for both")
    kind = "nodes" if "nodes" in query.options else "pods"
    namespace, selector = query.options.get("namespace"), query.options.get("selector")
    if namespace and kind == "nodes":
        raise ConfigError(f"{query.source}: nodes are in no namespace")
    words = [
        *(["--context", query.context] if query.context else []),
        *(["--all-namespaces"] if namespace == "*" else ["--namespace", namespace] if namespace else []),
        *(["--selector", selector] if selector else []),
    ]

    def text(printed: str) -> str:
        tree = tree_of(_mapping(json.loads(printed)), query.context, with_ids=True)
        return json.dumps(tree, indent=1, sort_keys=True)

    return Asked(words=("kubectl", "get", kind, "--output", "json", *words), text=text)


def _engine(program: str, option: str, form: str) -> Callable[[Query], Asked]:
    def asked(query: Query) -> Asked:
        """Ask for every container, running or not; with labels, for those that have them."""
        _check_options(query, ("label",))
        context = (option, query.context) if query.context else ()
        label = ("--filter", f"label={query.options['label']}") if "label" in query.options else ()

        def text(printed: str) -> str:
            from runbook.inventory.docker_containers import CONTAINERS, CONTEXT, ENGINE
            from runbook.inventory.json_text import json_in

            found = json_in(printed) or []
            rows = [_lasting_row(_mapping(row)) for row in (found if isinstance(found, list) else [found])]
            tree = {CONTAINERS: rows, CONTEXT: query.context, ENGINE: program}
            return json.dumps(tree, indent=1, sort_keys=True)

        words = (program, *context, "ps", "--all", "--no-trunc", "--format", form, *label)
        return Asked(words=words, text=text)

    return asked


def _lasting_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *row* without what changes every second, such as how long the container has been running."""
    return {key: row[key] for key in ("ID", "Id", "Image", "Names", "State", "Labels") if key in row}


def _scontrol(query: Query) -> Asked:
    if query.context or query.options:
        raise ConfigError(f"{query.source}: write scontrol: alone; choose hosts with --hosts")
    return Asked(words=("scontrol", "show", "nodes"), text=lambda printed: printed)


def _ansible(query: Query) -> Asked:
    file = Path(query.context).expanduser()
    if not query.context or not file.exists():
        raise ConfigError(f"{query.source}: there is no such file")
    refuse_foreign(file, MOVE_IT)

    def text(printed: str) -> str:
        return json.dumps(_mapping(json.loads(printed)), indent=1)

    path = file.absolute()
    words = ("ansible-inventory", "-i", str(path), "--list")
    return Asked(words=words, text=text, folder=str(path.parent))  # where another user's ansible.cfg cannot lie


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("not a mapping")
    return value


_SOURCES: Mapping[str, Callable[[Query], Asked]] = {
    "kubectl": _kubectl,
    "docker": _engine("docker", "--context", "{{json .}}"),
    "podman": _engine("podman", "--connection", "json"),
    "scontrol": _scontrol,
    "ansible": _ansible,
}
