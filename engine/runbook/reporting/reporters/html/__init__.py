"""The html output: one page that needs no network, with a search for hosts, steps, findings and outputs."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, TextIO

from runbook.dataclass import dataclass
from runbook.reporting.reporters.html.host_times import HostTimes
from runbook.reporting.wording.evidence import evidence_lines, inside
from runbook.reporting.wording.exit_codes import exit_line
from runbook.reporting.wording.grouping import together
from runbook.reporting.wording.host_digest import causes
from runbook.reporting.wording.host_lines import owed_lines
from runbook.reporting.wording.limits import limit_lines
from runbook.reporting.wording.profile_inputs import profile_lines
from runbook.reporting.wording.step_lines import by_name, grouped, outcome_notes
from runbook.text.name_ranges import fold
from runbook.text.printable import printable
from runbook.values.event import Event, RunFinished
from runbook.values.excerpts import excerpt
from runbook.values.kept_output import kept
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Phase, written_id
from runbook.values.result import HostResult, RunResult, SentCommand, StepResult, Victim
from runbook.values.types import seconds

OUTPUTS = 8 * 1024 * 1024
"""The maximum number of characters of outputs on a page, if each host still gets at least LEAST characters."""
MOST_OF_HOST = 256 * 1024
LEAST_OF_HOST = 8 * 1024
LONGEST = 20_000
"""The maximum number of characters of any other text: a difference between files, a script, a command line."""


class Texts:
    """The texts of a page, each stored once; records contain the numbers of texts."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {"": 0}

    def number(self, text: str | None) -> int:
        """Return the number of *text*; control characters, and characters that reverse text, are written out in the
        stored text.
        """
        return self._numbers.setdefault(printable(text or ""), len(self._numbers))

    def all(self) -> list[str]:
        """Return the texts in the order of their numbers."""
        return list(self._numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The part of a page about the whole run, and the tables to which the records of its hosts refer."""

    run: Mapping[str, Any]
    columns: Mapping[tuple[Phase, str], int]
    causes: Mapping[str, int]
    """The number of the cause, by the name of the host."""
    findings: Mapping[tuple[str, str], int]
    """The number of the group of findings, by host and id of the finding."""
    most: int
    """The maximum number of characters of outputs of each host."""


def document(result: RunResult, texts: Texts) -> Document:
    """Return everything of *result* except the records of its hosts."""
    found = causes(result.hosts)
    groups, numbers = _finding_groups(result.hosts)
    columns = _columns(result.hosts)
    run = {
        **_head(result),
        "columns": [[phase, printable(name)] for phase, name in columns],
        "causes": [
            {"v": cause.verdict, **_named(cause.hosts), "l": [printable(line) for line in cause.lines]}
            for cause in found
        ],
        "findings": groups,
        "owed": _owed(result.hosts),
        "scripts": {digest: texts.number(excerpt(text, most=LONGEST)) for digest, text in result.scripts.items()},
    }
    return Document(
        run=run,
        columns=columns,
        causes={host: number for number, it in enumerate(found) for host in it.hosts},
        findings=numbers,
        most=min(MOST_OF_HOST, max(LEAST_OF_HOST, OUTPUTS // max(1, len(result.hosts)))),
    )


def _head(result: RunResult) -> dict[str, Any]:
    left_out = grouped((each.why, each.host) for each in result.left_out)
    head = {
        "playbook": result.playbook,
        "run": result.run,
        "mode": str(result.mode),
        "started": result.started_at.replace("T", " ").replace("Z", " UTC"),
        "took": seconds(result.seconds),
        "exit": exit_line(result.exit_code, result.mode),
    }
    return {
        **{name: printable(text) for name, text in head.items()},
        "code": result.exit_code,
        "totals": [[verdict, count] for verdict, count in result.totals.items()],
        "inputs": [
            [printable(name), printable(excerpt(inside(it), most=LONGEST))] for name, it in result.inputs.items()
        ]
        + [["by profile", printable(line)] for line in profile_lines(result.profile_inputs)],
        "limits": [printable(line) for line in limit_lines(result.limits)] if result.limits else [],
        "leftOut": [[printable(fold(names)), printable(why)] for why, names in left_out.items()],
    }


def _named(hosts: Sequence[str]) -> dict[str, Any]:
    return {"h": printable(fold(hosts)), "n": len(hosts)}


def _owed(hosts: Iterable[HostResult]) -> list[dict[str, Any]]:
    said = together((host.host, (), owed_lines(host), False) for host in hosts if host.owed)
    return [{**_named(names), "l": [printable(line) for line in lines]} for names, lines in said]


def _columns(hosts: Iterable[HostResult]) -> dict[tuple[Phase, str], int]:
    """Return the columns for the steps of all hosts, in the order of the playbook; the items of one step share one
    column.
    """
    seen: dict[Phase, list[str]] = {phase: [] for phase in Phase}
    for host in hosts:
        at = dict.fromkeys(Phase, 0)
        for step in host.steps:
            names, name = seen[step.phase], written_id(step.id)
            if name not in names:  # where this host has it: behind the one that it has before
                names.insert(at[step.phase], name)
            at[step.phase] = names.index(name) + 1
    return {key: number for number, key in enumerate((phase, name) for phase in Phase for name in seen[phase])}


def _finding_groups(hosts: Sequence[HostResult]) -> tuple[list[dict[str, Any]], dict[tuple[str, str], int]]:
    """Return the findings that are not absent, with equal findings combined, and the group number of each finding."""
    kinds = grouped(
        ((finding.id, finding.severity, finding.status), (host.host, finding))
        for host in hosts
        for finding in host.findings
        if finding.status is not Presence.ABSENT
    )
    groups: list[dict[str, Any]] = []
    numbers: dict[tuple[str, str], int] = {}
    now = {host.host: host.verdict.needs_advice for host in hosts}
    for (name, severity, status), said in kinds.items():
        by_host = dict(said)
        alike = together((host, (*it.advise, str(now[host])), [_said(it)], True) for host, it in said)
        for names, lines in alike:
            first = by_host[names[0]]
            numbers |= {(host, name): len(groups) for host in names}
            groups.append(
                {
                    "id": printable(name),
                    "sev": severity,
                    "st": status,
                    "say": printable(lines[0]),
                    "adv": [printable(line) for line in first.advise],
                    "ev": _evidence(first),
                    "now": now[names[0]] or not first.severity.drives,
                    "on": printable(names[0]),
                    **_named(names),
                }
            )
    return groups, numbers


def _said(finding: Finding) -> str:
    return (finding.why if finding.status is Presence.UNKNOWN else finding.say) or finding.id


def _evidence(finding: Finding) -> list[str]:
    return [printable(line.strip()) for name, value in finding.evidence.items() for line in evidence_lines(name, value)]


def host_record(host: HostResult, page: Document, texts: Texts, times: HostTimes) -> dict[str, Any]:
    """Return the page's record of *host*; empty parts are left out."""
    timed = times.known(host.host)
    found = [
        _sparse(
            g=page.findings[host.host, finding.id] + 1,  # 0 would be left out
            say=texts.number(_said(finding)),
            ev=[texts.number(line) for line in _evidence(finding)],
        )
        for finding in host.findings
        if finding.status is not Presence.ABSENT
    ]
    return _sparse(
        h=printable(host.host),
        v=str(host.verdict),
        r=host.verdict.rank,
        t=_seconds(host.seconds),
        c=page.causes.get(host.host, -1) + 1,
        e=texts.number(host.error),
        o=[texts.number(line) for line in owed_lines(host)],
        f=found,
        a=sum(finding.status is Presence.ABSENT for finding in host.findings),
        q=int(timed),
        p=[
            {**_step_record(step, page, texts), **(_began(times.began(host.host, step)) if timed else {})}
            for step in kept(host.steps, page.most)
        ],
    )


def _began(moment: float | None) -> dict[str, Any]:
    """Return when a step began, on the time line of its host; `u` if that is not known."""
    return _sparse(b=_seconds(moment or 0.0), u=int(moment is None))


def _step_record(step: StepResult, page: Document, texts: Texts) -> dict[str, Any]:
    condition = f"when: {step.condition}" if step.condition else ""
    notes = [step.action, str(step.risk or ""), *outcome_notes(step), condition]
    return _sparse(
        k=page.columns[step.phase, written_id(step.id)] + 1,
        i=texts.number(step.id),
        s=str(step.status),
        n=texts.number(step.name),
        w=texts.number(by_name(step)),
        x=texts.number("; ".join(filter(None, notes))),
        t=_seconds(step.seconds),
        d=texts.number(excerpt(step.diff or "", most=LONGEST)),
        v=[texts.number(_victim(victim)) for victim in step.victims],
        c=[_command_record(command, texts) for command in step.commands],
    )


def _victim(victim: Victim) -> str:
    owner = f" [owner: {victim.owner}]" if victim.owner else ""
    return f"pid {victim.pid} ({victim.user}) {victim.command[:LONGEST]}{owner}"


def _command_record(command: SentCommand, texts: Texts) -> dict[str, Any]:
    code = "not sent" if command.exit_code is None else f"exit code {command.exit_code}"
    return _sparse(
        l=texts.number(excerpt(command.shown or command.line, most=LONGEST)),
        x=texts.number("timed out" if command.timed_out else code),
        t=_seconds(command.seconds),
        o=texts.number(command.stdout),
        e=texts.number(command.stderr),
        k=command.script,
    )


def _seconds(value: float) -> float:
    return round(value, 2) if math.isfinite(value) else 0


def _sparse(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}


ENDINGS = ("html", "htm")

_IN_SCRIPT = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029\x7f"}
"""The characters that could end the element with the text, or that an old reader treats as a line end."""


class Reporter:
    """Writes the page at the end of the run, host by host."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._times = stream, HostTimes()

    def on(self, event: Event) -> None:
        """Write the page at the end of the run."""
        self._times.on(event)
        if isinstance(event, RunFinished):
            self._write(event.result)
            self._stream.flush()

    def _write(self, result: RunResult) -> None:
        texts = Texts()
        page = document(result, texts)
        before, after = _page(result)
        self._put(before)
        self._stream.write('{"run": ' + _json(page.run) + ',\n"hosts": [')
        for number, host in enumerate(result.hosts):
            self._stream.write(",\n" if number else "\n")
            self._stream.write(_json(host_record(host, page, texts, self._times)))
        self._stream.write('\n],\n"texts": ' + _json(texts.all()) + "}\n")
        self._put(after)

    def _put(self, text: str) -> None:
        """Write *text* of the page; characters outside the stream's encoding become references."""
        utf8 = (self._stream.encoding or "utf-8").lower().replace("-", "") == "utf8"
        self._stream.write(text if utf8 else text.encode("ascii", "xmlcharrefreplace").decode("ascii"))


def _page(result: RunResult) -> tuple[str, str]:
    """Return the text of the page before the run's own part, and the text after it."""
    parts = {name: _part(name) for name in ("page.html", "page.css", "page.js")}
    counts = ", ".join(f"{count} {verdict}" for verdict, count in result.totals.items())
    lines = [f"{fold(cause.hosts)}: {'; '.join(cause.lines)}" for cause in causes(result.hosts)]
    title = f"{result.playbook}: {counts or 'no host'}"
    before, _, after = (
        Template(parts["page.html"])
        .substitute(
            title=escape(printable(title)),
            plain="\n".join(
                escape(printable(line)) for line in (title, exit_line(result.exit_code, result.mode), *lines)
            ),
            css=parts["page.css"],
            js=parts["page.js"],
            css_hash=_hash(parts["page.css"]),
            js_hash=_hash(parts["page.js"]),
            run="\0",
        )
        .partition("\0")
    )
    return before, after


def _part(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="ascii")


def _hash(text: str) -> str:
    """Return the hash by which the page's security policy allows its script or its style; no other may run."""
    return b64encode(sha256(text.encode("ascii")).digest()).decode("ascii")


def _json(value: object) -> str:
    """Return *value* as JSON in ASCII that is safe within an element of a page."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_IN_SCRIPT)
