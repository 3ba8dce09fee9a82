"""Read the webhook of Alertmanager (version 4 of its payload): hints about hosts, from which nothing else is taken."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.values.watch_rule import Rule

MOST_ALERTS = 10_000
"""The alerts in one payload that are read."""
MOST_TRUNCATED = 10**9
LONGEST_LABEL = 253
"""The longest name of a host: that of DNS."""
_FINGERPRINT = re.compile(r"[0-9a-f]{1,64}")
_IN_BRACKETS = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::\d{1,5})?")
_PORT = re.compile(r":\d{1,5}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSeen:
    """An alert of a payload."""

    name: str
    labels: Mapping[str, str]
    fingerprint: str
    since: float
    """The time when it began, in seconds since the epoch."""
    starts_at: str
    """The same in UTC, as ISO 8601 has it."""
    firing: bool

    @property
    def episode(self) -> str:
        """The identity of what the alert is about, from its beginning to its end."""
        return f"{self.fingerprint}@{self.starts_at}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The alerts of a payload."""

    alerts: tuple[AlertSeen, ...]
    truncated: int
    """The alerts that Alertmanager left out."""
    malformed: int
    """The alerts that cannot be read."""


def payload(tree: Any) -> Payload:
    """Return the alerts in *tree*, a payload of Alertmanager.  Raises ConfigError if it is something else."""
    listed = tree.get("alerts") if isinstance(tree, Mapping) else None
    if not isinstance(listed, list):
        raise ConfigError("not a payload of Alertmanager: it has no list `alerts`")
    if len(listed) > MOST_ALERTS:
        raise ConfigError(f"{len(listed)} alerts in one payload, and {MOST_ALERTS} are the most: set max_alerts")
    made = [_alert(each) for each in listed]
    truncated = tree.get("truncatedAlerts")
    return Payload(
        alerts=tuple(each for each in made if each),
        truncated=min(truncated, MOST_TRUNCATED) if type(truncated) is int and truncated > 0 else 0,
        malformed=sum(each is None for each in made),
    )


def hosts_named(alert: AlertSeen, rules: Mapping[str, Rule]) -> Iterator[tuple[Rule, str]]:
    """Yield each rule that listens to *alert*, with the name of the host that it is about."""
    for rule in rules.values():
        if rule.on.alert and rule.on.alert == alert.name:
            yield rule, _host(alert.labels.get(rule.on.host_label, ""))


def _host(label: str) -> str:
    """Return the host that *label* names, without a port; empty if no host has such a name."""
    if len(label) > LONGEST_LABEL + 8:
        return ""
    name = label
    if bracketed := _IN_BRACKETS.fullmatch(label):
        name = bracketed[1]
    elif label.count(":") == 1:
        name = _PORT.sub("", label)
    return name if len(name) <= LONGEST_LABEL else ""


def _alert(tree: Any) -> AlertSeen | None:
    if not isinstance(tree, Mapping):
        return None
    labels, fingerprint, starts_at = tree.get("labels"), tree.get("fingerprint"), tree.get("startsAt")
    status = tree.get("status")
    if not isinstance(labels, Mapping) or not all(isinstance(value, str) for value in labels.values()):
        return None
    if status not in ("firing", "resolved"):
        return None
    if not isinstance(fingerprint, str) or not _FINGERPRINT.fullmatch(fingerprint) or not isinstance(starts_at, str):
        return None
    try:
        since = datetime.fromisoformat(_to_microseconds(starts_at))
    except ValueError:
        return None
    if since.tzinfo is None or not 1970 < since.year < 9999:
        return None
    return AlertSeen(
        name=str(labels.get("alertname", "")),
        labels={str(name): str(value) for name, value in labels.items()},
        fingerprint=fingerprint,
        since=since.timestamp(),
        starts_at=since.astimezone(UTC).isoformat(),
        firing=status == "firing",
    )


def _to_microseconds(text: str) -> str:
    """Return the time *text* of Go, which may have nanoseconds, with six digits at most."""
    return re.sub(r"(\.\d{6})\d+", r"\1", text[:64])
