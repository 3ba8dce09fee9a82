"""Conclude from the findings of many playbooks what is wrong with a host, and which playbook to go on with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Playbook
from runbook.values.result import HostResult, Verdict
from runbook.wording.host_lines import cause

ORDER = (
    *("gpu-hang", "gpu-lost", "container-lost-gpu", "docker-recover", "nfs-hang", "host-oom", "disk-full", "shm-full"),
    *("fabric-manager", "nvlink", "ib-link", "gpu-row-remap", "driver-mismatch", "gpu-xid", "gpu-reset", "zombie-gpu"),
    *("mig-layout", "gpu-throttle", "time-sync", "gpu-health"),
)
"""Playbooks of the library about a host, those that know most about a fault first; what is about a job, a cluster or a
container needs to know which, and is run by name."""

FOLLOWS = frozenset({"no_answer", "not_known", "host_first"})
"""Findings that say why a playbook sees nothing: they follow from a fault that another one names."""
FIRST_OF_GPUS = "gpu-health"
"""The playbook that says what is wrong where nvidia-smi does not answer; others say no more than that."""

MOST = 3
"""Further findings that are shown of a host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A finding with the playbook that it is of."""

    playbook: str
    finding: str
    say: str
    next: str
    """What to do: the command that goes on with it, or the first advice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What is wrong with one host."""

    host: str
    verdict: Verdict
    cause: Named | None = None
    also: tuple[Named, ...] = ()
    why: str = ""
    """Why nothing is known, where no cause is."""


def concluded(host: HostResult, books: Mapping[str, Playbook], where: str = "") -> Conclusion:
    """What *host* has by the findings of *books*, each under the prefix of its ids; the first is believed first.

    *where* are the options of a command line that say which inventory it is of.
    """
    found = [*_errors(host, books, where)]
    telling = [each for each in found if not _follows(each)] or found
    if not telling:
        why = "" if host.verdict is Verdict.HEALTHY else cause(host)
        return Conclusion(host=host.host, verdict=host.verdict, why=why)
    first, *others = telling
    said = {first.say}
    also = [each for each in others if not (each.say in said or said.add(each.say))]  # type: ignore[func-returns-value]
    return Conclusion(host=host.host, verdict=Verdict.UNRESOLVED, cause=first, also=tuple(also))


def _follows(each: Named) -> bool:
    return each.finding in FOLLOWS or (each.finding == "hung" and each.playbook != FIRST_OF_GPUS)


def _errors(host: HostResult, books: Mapping[str, Playbook], where: str) -> Iterator[Named]:
    present = {finding.id: finding for finding in host.findings if _is_error(finding)}
    rules = [(prefix, book, rule) for prefix, book in books.items() for rule in book.findings]
    for prefix, book, rule in sorted(rules, key=lambda it: bool(it[2].part)):  # what a playbook includes comes last
        if finding := present.get(f"{prefix}_{rule.id}"):
            yield Named(
                playbook=book.name,
                finding=rule.id,
                say=finding.say,
                next=_next(f"{host.host}{where}", book, rule.id, finding),
            )


def _is_error(finding: Finding) -> bool:
    return finding.severity.drives and finding.status is Presence.PRESENT


def _next(host: str, book: Playbook, finding: str, seen: Finding) -> str:
    """The playbook itself where it can do something about *finding*; else its advice."""
    if any(finding in step.for_ or not step.for_ for step in book.remediate):
        return f"runbook run {book.name} --hosts {host} --dry-run"
    return seen.advise[0] if seen.advise else f"runbook run {book.name} --hosts {host} --only diagnose"


def lines_of(conclusions: Sequence[Conclusion]) -> Iterator[str]:
    """At most four lines for each host: what it is, what to do next, what else there is."""
    for each in sorted(conclusions, key=lambda it: list(Verdict).index(it.verdict)):
        if each.cause is None:
            yield f"{each.host}: {each.verdict}" + (f": {each.why}" if each.why else "")
            continue
        yield f"{each.host}: {each.cause.say} ({each.cause.playbook})"
        yield f"  next: {each.cause.next}"
        if each.also:
            names = dict.fromkeys(also.playbook for also in each.also if also.playbook != each.cause.playbook)
            yield f"  also: {'; '.join(also.say for also in each.also[:MOST])}"
            if names:
                yield f"  by: {', '.join(names)}"
