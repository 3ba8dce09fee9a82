"""Compare the desired values with those in a configuration text, and produce the text that has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import partial
from typing import Any

from runbook.dataclass import dataclass
from runbook.library.config.facts.config_text import (
    ABSENT,
    ConfigText,
    Conflict,
    Unparsable,
    alike,
    edited,
    kind,
    number,
    plain,
)
from runbook.library.config.facts.json_editor import JsonText
from runbook.library.config.facts.key_paths import KeyPath, key_path, key_text
from runbook.library.config.facts.toml_editor import TomlText
from runbook.library.config.facts.yaml_editor import YamlText

_FORMATS: Mapping[str, Callable[[str], ConfigText]] = {"yaml": YamlText, "toml": TomlText, "json": JsonText}

_ENDINGS = {"yaml": "yaml", "yml": "yaml", "toml": "toml", "json": "json"}
"""``.conf`` is not among them: it can be anything."""

BOM = "\ufeff"


def format_of(path: str) -> str:
    """Return the format for the ending of *path*; empty: the ending is unknown."""
    name = path.rpartition("/")[2]
    return _ENDINGS.get(name.rpartition(".")[2].lower(), "") if "." in name else ""


def text_of(text: str, form: str) -> ConfigText:
    """*text* as *form* has it, to look into.  Raises Unparsable."""
    return _FORMATS[form](text.removeprefix(BOM).replace("\r\n", "\n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredValues:
    """The values that a file should have; keys are written with dots."""

    set: Mapping[str, Any] = field(default_factory=dict)
    """Values to set; a mapping is merged into the present one, and its keys are words without dots."""
    at_least: Mapping[str, float] = field(default_factory=dict)
    """Numbers that are raised to this if they are lower or absent."""
    unset: tuple[str, ...] = ()
    parents: bool = False
    """Mappings around a key are made where they are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patched:
    """The present values of the wanted keys, and the text of the file with all wanted values."""

    values: Mapping[str, Any]
    missing: tuple[str, ...]
    differing: tuple[str, ...]
    surplus: tuple[str, ...]
    text: str
    """With all that is wanted; as it was where nothing is to be done, or there is a conflict."""
    conflict: str = ""
    """The reason why they cannot be set."""


def patched(text: str, form: str, wanted: DesiredValues, name: str = "the file") -> Patched:
    """Find the *wanted* values in *text*, and put them there.  Raises Unparsable.

    The new text is parsed again: it must have the old data with the changed values, and no other difference.
    """
    body = text.removeprefix(BOM)
    crlf = "\r\n" in body and body.count("\r\n") == body.count("\n") == body.count("\r")
    now = _FORMATS[form](body.replace("\r\n", "\n") if crlf else body)
    seen = _Seen(now, wanted)
    problem, after = seen.conflict, now
    if not problem:
        try:
            after = _all_put(now, wanted, seen)
        except Conflict as conflict:
            problem, after = str(conflict), now
    if after is now:
        new = text
    else:
        new = (BOM if text.startswith(BOM) else "") + (after.text.replace("\n", "\r\n") if crlf else after.text)
    return Patched(
        values=seen.values,
        missing=tuple(seen.missing),
        differing=tuple(seen.differing),
        surplus=tuple(seen.surplus),
        text=new,
        conflict=f"{name}: {problem}" if problem else "",
    )


class _Seen:
    """The present values of the wanted keys."""

    def __init__(self, now: ConfigText, wanted: DesiredValues) -> None:
        self.values: dict[str, Any] = {}
        self.missing: list[str] = []
        self.differing: list[str] = []
        self.surplus: list[str] = []
        self.conflict = ""
        for key, value in wanted.set.items():
            self._look(now, key, partial(_holds, value=plain(value)))
        for key, least in wanted.at_least.items():
            self._look(now, key, partial(_reaches, least=least))
        for key in wanted.unset:
            found = self._found(now, key)
            if found is not ABSENT:
                self.values[key] = found
                self.surplus.append(key)

    def _found(self, now: ConfigText, key: str) -> Any:
        try:
            return now.value(key_path(key))
        except Conflict as conflict:
            self.conflict = self.conflict or str(conflict)
            return ABSENT

    def _look(self, now: ConfigText, key: str, enough: Callable[[Any], bool]) -> None:
        found = self._found(now, key)
        if found is ABSENT:
            self.missing.append(key)
            return
        self.values[key] = found
        try:
            if not enough(found):
                self.differing.append(key)
        except Conflict as conflict:
            self.conflict = self.conflict or f"{key}: {conflict}"
            self.differing.append(key)


def _holds(found: Any, *, value: Any) -> bool:
    """Whether *value* is there: of a mapping, each of its keys."""
    if isinstance(value, dict) and isinstance(found, dict):
        return all(key in found and _holds(found[key], value=it) for key, it in value.items())
    return alike(found, value)


def _reaches(found: Any, *, least: float) -> bool:
    return number(found) >= least


def _all_put(now: ConfigText, wanted: DesiredValues, seen: _Seen) -> ConfigText:
    for key in seen.surplus:
        now = _dropped(now, key_path(key))
    for key, value in wanted.set.items():
        if key in seen.missing or key in seen.differing:
            now = _put(now, key_path(key), plain(value), wanted.parents)
    for key, least in wanted.at_least.items():
        if key in seen.missing or key in seen.differing:
            now = _put(now, key_path(key), least, wanted.parents)
    return now


def _put(now: ConfigText, path: KeyPath, value: Any, parents: bool) -> ConfigText:
    found = now.value(path)
    if isinstance(value, dict) and isinstance(found, dict):
        for key, it in value.items():
            now = _put(now, (*path, key), it, parents)
        return now
    if found is not ABSENT and alike(found, value):
        return now
    if isinstance(found, dict):
        keys = ", ".join(list(found)[:3]) or "none"
        raise Conflict(
            f"{key_text(path)} is a mapping (its keys: {keys}), but {kind(value)} is to replace it: "
            "set its keys one by one, or unset it in an earlier step"
        )
    if isinstance(value, dict) and found is not ABSENT and found is not None:
        raise Conflict(
            f"{key_text(path)} is {kind(found)}, but a mapping is to replace it: unset it in an earlier step"
        )
    if found is ABSENT and not parents:
        _need_parent(now, path)
    return _checked(now, path, value, now.put(path, value))


def _need_parent(now: ConfigText, path: KeyPath) -> None:
    """Where the text holds anything at all, a parent that is not there is more likely a slip of the pen."""
    for depth in range(1, len(path)):
        if now.data and now.value(path[:depth]) is ABSENT:
            raise Conflict(
                f"there is no {key_text(path[:depth])} to put {key_text(path[depth:])} into; "
                "set `parents: true` to create it"
            )


def _dropped(now: ConfigText, path: KeyPath) -> ConfigText:
    return _checked(now, path, ABSENT, now.drop(path))


def _checked(before: ConfigText, path: KeyPath, value: Any, text: str) -> ConfigText:
    """*text*, parsed: the old data with that one change, or a Conflict."""
    words = f"{key_text(path)} cannot be changed without changing something else in this file; edit it by hand"
    try:
        after = type(before)(text)  # type: ignore[call-arg] # every Text is made from its text
    except Unparsable as error:
        raise Conflict(f"{words} ({error})") from error
    if not alike(after.data, edited(before.data, path, value)):
        raise Conflict(words)
    return after
