"""Mask secrets in error messages, and in texts about playbooks.

The events of a run are masked on their way to the reporters (``running``).  This module masks everything else:
mistakes, internal errors, and the texts of ``show``, ``check`` and ``list``.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from runbook.commands.input_files import find_playbook, inventory_paths, inventory_text, open_included
from runbook.commands.inventory_files import open_inventory
from runbook.commands.inventory_sources import is_source, known_source_text
from runbook.commands.options import GivenInputs
from runbook.errors import ConfigError, RunbookError
from runbook.language.expressions.templates import names
from runbook.language.includes import MOST
from runbook.language.yaml_source import parse_playbook
from runbook.secrets.detection import masked_argv, secret_spans
from runbook.secrets.documents import secrets_in
from runbook.secrets.masking import Masking, masked
from runbook.secrets.names import MASK, NOT_A_VALUE, is_secret
from runbook.text_files import read_text
from runbook.values.playbook import Playbook
from runbook.values.types import Raw

SECTIONS = ("diagnose", "remediate", "verify", "let")


class InternalError(RunbookError):
    """An error of runbook itself; its message is the traceback, with secrets masked."""


class SecretMasking:
    """A context that masks secrets in the message of each error that leaves it; *known* is then called for the
    secrets.
    """

    def __init__(self, known: Callable[[], Iterable[str]]) -> None:
        self._known = known
        self._learned: list[str] = []

    def learn(self, secrets: Iterable[str]) -> None:
        """Mask *secrets*, too, from now on."""
        self._learned += secrets

    def __enter__(self) -> SecretMasking:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not isinstance(error, Exception):
            return
        mask = Masking((*self._learned, *self._known()))
        match error:
            case ConfigError():
                raise ConfigError(*(masked(problem, mask) for problem in error.problems)) from None
            case RunbookError():
                error.args = tuple(mask(item) if isinstance(item, str) else item for item in error.args)
            case _ if type(error).__module__.partition(".")[0] != "click":
                raise InternalError(f"internal error: {mask(''.join(traceback.format_exception(error)))}") from None


def secrets_of(playbook: Playbook) -> tuple[str, ...]:
    """Return the secrets that *playbook* itself contains: values under secret names, or in secret contexts."""
    found: list[str] = []
    for step in playbook.steps:
        found += _secret_names(dict(step.env))
        found += _secret_names(step.args)
    for part in playbook.parts:
        found += _secret_names(part.given)
    for declared in (*playbook.inputs, *(declared for part in playbook.parts for declared in part.inputs)):
        found += secrets_in(
            {"secret": declared.default} if declared.hides(declared.default) else {"input": declared.default}
        )
    return tuple(dict.fromkeys(found))


def secret_inputs(playbook: Playbook, part: str = "") -> frozenset[str]:
    """Return the inputs that are used under a secret name (``Authorization: {{ inputs.it }}``)."""
    found: set[str] = set()
    for step in playbook.steps:
        for text in _templates({"env": dict(step.env), "args": step.args}) if step.part == part else ():
            with suppress(ConfigError):
                found |= {name for root, name in names(text, playbook.let_of(part)) if root == "inputs"}
    return frozenset(found)


def secrets_in_playbook_file(name: str) -> tuple[str, ...]:
    """Return the secrets in the file of playbook *name* and in its included files; the file may have mistakes."""
    with suppress(ConfigError, OSError, ValueError):
        path = find_playbook(name)
        return tuple(dict.fromkeys(_secrets_in_text(read_text(path), str(path), {str(path)})))
    return ()


def secrets_on_command_line(
    playbook: str, inventory: Sequence[str] = (), inputs: GivenInputs | None = None
) -> tuple[str, ...]:
    """Return the secrets in all files and inputs that a command line names, as far as they can be read."""
    found = list(secrets_in_playbook_file(playbook)) if playbook else []
    with suppress(ConfigError):
        for path in inventory_paths(inventory):
            with suppress(ConfigError):  # no program is asked because of a mistake
                text = known_source_text(str(path)) if is_source(str(path)) else inventory_text(path)
                found += secrets_in(open_inventory(path, text).value)
    given: dict[str, Any] = {}
    for option in inputs.inputs if inputs else ():
        name, _, text = option.partition("=")
        given[name] = text
        with suppress(ConfigError):
            given[f"{name} "] = parse_playbook(text, "").value
    if inputs and (file := inputs.inputs_file):
        with suppress(ConfigError):
            tree: Any = parse_playbook(read_text(Path(file)), file).value
            given |= tree if isinstance(tree, Mapping) else {}
    marked = _marked_inputs(playbook)
    for name, value in given.items():
        hidden = name.strip() in marked or is_secret(name.strip(), value)
        found += secrets_in({"secret": value} if hidden else {"input": value})
    return tuple(dict.fromkeys(found))


def masked_by(secrets: Iterable[str], text: str) -> str:
    """Return *text* with *secrets* masked, and also values that are secret by their form or name."""
    return Masking(secrets)(text)


def _marked_inputs(playbook: str) -> frozenset[str]:
    """Return the inputs that the file of *playbook* marks as secret, even if the file has mistakes."""
    with suppress(ConfigError):
        path = find_playbook(playbook)
        tree: Any = parse_playbook(read_text(path), str(path)).value
        declared = tree.get("inputs") if isinstance(tree, Mapping) else None
        pairs = declared.items() if isinstance(declared, Mapping) else ()
        return frozenset(name for name, it in pairs if isinstance(it, Mapping) and it.get("secret") is True)
    return frozenset()


def _secrets_in_text(text: str, file: str, read: set[str]) -> Iterator[str]:
    """Yield the secrets in *text* and in its included files, each file once; *read*: the files that were already
    read.
    """
    tree: Any = parse_playbook(text, file).value
    if not isinstance(tree, Mapping):
        return
    declared = tree.get("inputs")
    for name, settings in declared.items() if isinstance(declared, Mapping) else ():
        default = settings.get("default") if isinstance(settings, Mapping) else None
        secret = isinstance(settings, Mapping) and (settings.get("secret") is True or is_secret(str(name), default))
        yield from secrets_in({"secret": default} if secret else {"input": default})
    for section in SECTIONS:
        steps = tree.get(section)
        yield from _secret_names(steps)
        for step in steps if isinstance(steps, list) else ():
            if isinstance(step, Mapping) and isinstance(step.get("include"), str):
                with suppress(ConfigError, OSError):
                    path, inner = open_included(step["include"], file)
                    if path not in read and len(read) <= MOST:
                        read.add(path)
                        yield from _secrets_in_text(inner, path, read)


def _secret_names(value: object) -> Iterator[str]:
    """Yield the secrets in *value*: the values under secret names, and secrets inside texts."""
    match value:
        case Raw(value=inner):
            yield from _secret_names(inner)
        case Mapping():
            for key, item in value.items():
                inner = item.value if isinstance(item, Raw) else item
                if isinstance(key, str) and is_secret(key, inner):
                    yield from (form for text in _leaves(inner) for form in _without_scheme(text))
                else:
                    yield from _secret_names(inner)
        case list() | tuple():
            words = [each for each in value if isinstance(each, str)]
            shown = masked_argv(words)
            yield from (word for word, it in zip(words, shown, strict=True) if it == MASK and word != MASK)
            for item in value:
                yield from _secret_names(item)
        case str() if "{{" not in value:
            yield from (value[start:end] for start, end in secret_spans(value))


def _leaves(value: object) -> Iterator[str]:
    match value:
        case Raw(value=inner):
            yield from _leaves(inner)
        case Mapping():
            yield from (text for each in value.values() for text in _leaves(each))
        case list() | tuple():
            yield from (text for each in value for text in _leaves(each))
        case str() if "{{" not in value and value.strip().lower() not in NOT_A_VALUE:
            yield from secrets_in({"secret": value})
        case int() | float() if not isinstance(value, bool):
            yield str(value)


def _without_scheme(text: str) -> tuple[str, ...]:
    """Return *text*; if it looks like the value of a header (``Bearer ...``), also the part after the scheme."""
    scheme, _, rest = text.partition(" ")
    return (text, rest.strip()) if scheme.isalpha() and len(scheme) <= 12 and rest.strip() else (text,)


def _templates(value: Any, *, secret: bool = False) -> Iterator[str]:
    """Yield the templates under a secret name in *value*."""
    match value:
        case Mapping():
            for key, item in value.items():
                yield from _templates(item, secret=secret or (isinstance(key, str) and is_secret(key, item)))
        case list() | tuple():
            for item in value:
                yield from _templates(item, secret=secret)
        case str() if secret and "{{" in value:
            yield value
