"""The name ``history`` in expressions: what earlier runs of the playbook changed and saw on the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.language.expressions.views import Silent, view
from runbook.protocols import RecordedPast
from runbook.values.recorded_change import RecordedAnswer, RecordedChange
from runbook.values.types import Unknown
from runbook.values.units import time_span

HISTORY = "history"
MASK = "***"
"""The text that replaces a secret in a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryScope:
    """The host and playbook whose history expressions see."""

    past: RecordedPast | None
    """The records of earlier runs; None if this command reads no records."""
    host: str
    part: str = ""
    """The included playbook that contains the expression; step and probe names in the expression belong to this
    playbook.
    """


class History:
    """The value of ``history`` in expressions.  If the history is unknown, it behaves like an unknown probe answer."""

    __slots__ = ("_scope",)

    def __init__(self, scope: HistoryScope) -> None:
        self._scope = scope

    def runs(self, within: str) -> Any:
        """Return the number of runs that changed the host in the last *within* (a duration)."""
        found = self._changes(within)
        return found if isinstance(found, Silent) else len({each.run for each in found})

    def changed(self, step: str, within: str) -> Any:
        """Return the number of runs in which *step* changed the host in the last *within* (a duration)."""
        found = self._changes(within)
        return found if isinstance(found, Silent) else len({each.run for each in found if each.step == self._own(step)})

    def last(self, what: str) -> Any:
        """Return the seconds since the last change of the host; None if it was never changed.  *what* must be
        ``changed``.
        """
        if what != "changed":
            raise ConfigError("`history.last` needs 'changed'")
        found = self._past().last_change(self._scope.host) if self._scope.past else _unread()
        match found:
            case Unknown(why=why):
                return _silent(why)
            case RecordedChange(ago=ago):
                return ago
        return None

    def previous(self, path: str) -> Any:
        """Return the newest recorded value at *path* (probe and field names); None if no run recorded an answer of the
        probe.
        """
        probe, *inner = path.split(".")
        found = self._answer(probe)
        if not isinstance(found, RecordedAnswer):
            return found
        return self._inside(found.state, inner, path, found.run)

    def previous_at(self, probe: str) -> Any:
        """Return the seconds since the run that has the newest recorded answer of *probe*; None if there is no such
        run.
        """
        found = self._answer(probe)
        return found.ago if isinstance(found, RecordedAnswer) else found

    def _own(self, name: str) -> str:
        return f"{self._scope.part}_{name}" if self._scope.part else name

    def _past(self) -> RecordedPast:
        assert self._scope.past
        return self._scope.past

    def _changes(self, within: str) -> Any:
        seconds = time_span(within)
        found = self._past().changes(self._scope.host, seconds) if self._scope.past else _unread()
        return _silent(found.why) if isinstance(found, Unknown) else found

    def _answer(self, probe: str) -> RecordedAnswer | Silent | None:
        found = self._past().answer(self._scope.host, self._own(probe)) if self._scope.past else _unread()
        return _silent(found.why) if isinstance(found, Unknown) else found

    def _inside(self, state: Any, inner: list[str], path: str, run: str) -> Any:
        """Return the value at *inner* in *state*.  A missing value is unknown, because another version may not have
        recorded it.
        """
        value = state
        for name in inner:
            if isinstance(value, Mapping) and name in value:
                value = value[name]
            elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            else:
                return _silent(f"run {run} recorded no {path}")
        if _masked(value):
            return _silent(f"{path} of run {run} holds a secret, which no record has")
        return view(value)


def _unread() -> Unknown:
    return Unknown(why="this command reads no records")


def _silent(why: str) -> Silent:
    return Silent(f"history: {why}")


def _masked(value: Any) -> bool:
    match value:
        case str():
            return MASK in value
        case Mapping():
            return any(map(_masked, value.values()))
        case list():
            return any(map(_masked, value))
    return False
