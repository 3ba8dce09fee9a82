"""Say which inputs and limits profiles of the inventory gave hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runbook.text.name_ranges import fold
from runbook.text.printable import json_text
from runbook.values.inventory import Profile
from runbook.values.run_origin import InputsByPlaybook
from runbook.values.types import seconds


def profile_lines(profile_inputs: Mapping[str, InputsByPlaybook]) -> list[str]:
    """Return a line for each set of inputs, with the hosts that have it: ``gpu-[1-8]: confirm=3s (zombie-gpu)``."""
    hosts: dict[str, list[str]] = {}
    for host, books in profile_inputs.items():
        said = [f"{_pairs(inputs)} ({book})" for book, inputs in sorted(books.items())]
        hosts.setdefault(", ".join(said), []).append(host)
    return [f"{fold(names)}: {words}" for words, names in hosts.items()]


def profile_limit_lines(profiles: Sequence[Profile], hosts: Sequence[str]) -> list[str]:
    """Return a line for each of *profiles* that limits changes of *hosts*: ``gpu-[1-8]: cooldown 1 h (h100)``."""
    lines = []
    for profile in profiles:
        named = [host for host in hosts if host in profile.hosts]
        limits = {"host_deadline": profile.host_deadline, "cooldown": profile.cooldown}
        said = [f"{name} {seconds(limit)}" for name, limit in limits.items() if limit]
        if named and said:
            lines.append(f"{fold(named)}: {', '.join(said)} ({profile.name})")
    return lines


def _pairs(inputs: Mapping[str, object]) -> str:
    return ", ".join(
        f"{name}={value if isinstance(value, str) and value.isprintable() else json_text(value, 'utf-8')}"
        for name, value in inputs.items()
    )
