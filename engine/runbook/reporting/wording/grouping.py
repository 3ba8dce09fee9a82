"""Group hosts with the same result, so that they are shown together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runbook.dataclass import dataclass
from runbook.text.similar_texts import Block, block_of, merged_lines
from runbook.values.result import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class HostGroup:
    """Hosts with the same verdict and the same lines."""

    hosts: Sequence[str]
    verdict: Verdict
    lines: Sequence[str]


def together(said: Iterable[tuple[str, tuple[str, ...], list[str], bool]]) -> list[tuple[list[str], list[str]]]:
    """Return groups of hosts with equal lines, each with its lines.

    *said* has host, identity, lines and whether lines must be strictly equal.
    """
    groups: dict[tuple[object, ...], list[tuple[str, list[str], Block]]] = {}
    for host, identity, lines, strict in said:
        block = block_of(lines, host, strict=strict)
        groups.setdefault((identity, block.key), []).append((host, lines, block))
    return [([host for host, _, _ in group], _as_one(group)) for group in groups.values()]


def _as_one(group: Sequence[tuple[str, list[str], Block]]) -> list[str]:
    first = group[0][1]
    same = all(lines == first for _, lines, _ in group)
    return first if same else merged_lines([block for _, _, block in group])
