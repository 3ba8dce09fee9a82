"""Ask several playbooks at once: one playbook with all their probes and findings, and the conclusion about a host."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from runbook.commands.input_files import open_included, parse_checked, read_beside
from runbook.dataclass import dataclass
from runbook.language.includes import Open
from runbook.plugins import discover
from runbook.reporting.wording.host_digest import host_digest
from runbook.values.plan import Finding
from runbook.values.playbook import Playbook, Telling
from runbook.values.result import HostResult, Verdict
from runbook.values.types import Json

FIRST_OF_GPUS = "gpu-health"
"""The playbook that names the fault if nvidia-smi does not answer; others report only that it does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A finding, the playbook that has it, and the next command."""

    playbook: str
    finding: str
    say: str
    next: str
    """The next action: the command that continues with it, or the first advice."""
    knows: bool = True
    """Whether it tells a fault; false: only that something is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The conclusion about one host: the main cause, and further findings."""

    host: str
    verdict: Verdict
    cause: Named | None = None
    also: tuple[Named, ...] = ()
    why: str = ""
    """The reason why nothing is known; empty if a cause was found."""


def concluded(host: HostResult, books: Mapping[str, Playbook], where: str = "") -> Conclusion:
    """Return the conclusion about *host* from the findings of *books*, which are keyed by the prefix of their
    finding ids.

    The first finding is the most likely cause.  *where*: the options that name the inventory, for the next command.
    """
    found = [*_errors(host, books, where)]
    telling = [each for each in found if not _follows(each)] or found
    if not telling:
        cause = host_digest(host).cause
        return Conclusion(host=host.host, verdict=host.verdict, why=cause.text if cause else "")
    first, *others = telling
    said = {first.say}
    also = [each for each in others if not (each.say in said or said.add(each.say))]  # type: ignore[func-returns-value]
    return Conclusion(host=host.host, verdict=Verdict.UNRESOLVED, cause=first, also=tuple(also))


def _follows(each: Named) -> bool:
    return not each.knows or (each.finding == "hung" and each.playbook != FIRST_OF_GPUS)


def _errors(host: HostResult, books: Mapping[str, Playbook], where: str) -> Iterator[Named]:
    present = {finding.id: finding for finding in host_digest(host).errors}
    rules = [(prefix, book, rule) for prefix, book in books.items() for rule in book.findings]
    for prefix, book, rule in sorted(rules, key=lambda it: bool(it[2].part)):  # what a playbook includes comes last
        if finding := present.get(f"{prefix}_{rule.id}"):
            yield Named(
                playbook=book.name,
                finding=rule.id,
                say=finding.say,
                next=_next(f"{host.host}{where}", book, rule.id, finding),
                knows=rule.tells is Telling.FAULT,
            )


def _next(host: str, book: Playbook, finding: str, seen: Finding) -> str:
    """Return the command to continue with: a dry run of *book* if it has a step for *finding*; otherwise the advice."""
    if any(finding in step.for_ or not step.for_ for step in book.remediate):
        return f"runbook run {book.name} --hosts {host} --dry-run"
    return seen.advise[0] if seen.advise else f"runbook run {book.name} --hosts {host} --only diagnose"


def prefix_of(name: str) -> str:
    """Return the prefix of the ids of the playbook *name* in ``joined``."""
    return f"of_{name.replace('-', '_')}"


def joined(
    books: Mapping[str, Playbook],
    inputs: Mapping[str, Mapping[str, Json]] | None = None,
    opened: Open = open_included,
    command: str = "diagnose",
) -> Playbook:
    """Return one playbook with all probes and findings of *books*, which are keyed by the prefix of their ids.

    *inputs*: those of some of the playbooks, by the same key.  *command*: what asks, which names the playbook.
    """
    given = inputs or {}
    lines = [
        f"  - {{id: {prefix}, include: {json.dumps(book.name)}, inputs: {json.dumps(given.get(prefix, {}))}}}"
        for prefix, book in books.items()
    ]
    text = "\n".join([f"name: {command}", "about: The diagnoses of many playbooks at once.", "diagnose:", *lines, ""])
    beside = Path("playbooks") / f"{command}.yaml"  # whose neighbours hide the library's of the same name, as in `run`
    called = f"{beside.absolute()} {' '.join(sorted(books))}"
    return parse_checked(text, beside, discover(), opened, read_beside, called=called)
