"""The openmetrics output: gauges about a run, its hosts and findings, for node_exporter's textfile collector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TextIO

from runbook.dataclass import dataclass
from runbook.text.printable import printable
from runbook.text.timestamps import iso
from runbook.values.event import Event, RunFinished
from runbook.values.plan import Presence
from runbook.values.playbook import Severity
from runbook.values.result import RunResult, Status, Verdict

ENDINGS = ("prom",)

REPLACES = True
"""Whether the file must be replaced as a whole at the end of the run, because the collector reads it at any time."""

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A metric with all its samples, because the format requires them together."""

    name: str
    """The name without ``runbook_run_``, which all metrics have."""
    help: str
    """The description; always the same words, because the collector refuses two files with different words."""
    samples: Sequence[tuple[Labels, float]]


class Reporter:
    """Writes the metrics at the end of the run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def on(self, event: Event) -> None:
        """Write the metrics at the end of the run."""
        if isinstance(event, RunFinished):
            ascii_only = (self._stream.encoding or "utf-8").lower().replace("-", "") != "utf8"
            for line in lines_of(event.result, ascii_only=ascii_only):
                self._stream.write(line + "\n")
            self._stream.flush()


def lines_of(result: RunResult, *, ascii_only: bool = False) -> Iterable[str]:
    """Yield the lines of the metrics, which are valid in OpenMetrics and in Prometheus' older text format."""
    common = (("playbook", result.playbook), ("mode", str(result.mode)))
    for gauge in (*_of_the_run(result), *_of_findings(result), *_of_hosts(result)):
        name = f"runbook_run_{gauge.name}"
        yield f"# HELP {name} {gauge.help}"
        yield f"# TYPE {name} gauge"
        for labels, value in gauge.samples:
            text = ",".join(f'{key}="{_label(it, ascii_only=ascii_only)}"' for key, it in (*common, *labels))
            yield f"{name}{{{text}}} {_number(value)}"
    yield "# EOF"


def _of_the_run(result: RunResult) -> list[Gauge]:
    started = iso(result.started_at)
    verdicts = Counter(host.verdict for host in result.hosts)
    statuses = Counter(step.status for host in result.hosts for step in host.steps)
    owed = sum(len(host.owed) for host in result.hosts)
    return [
        _gauge("info", "The run that the other metrics describe.", [((("run", result.run),), 1)]),
        _gauge(
            "start_timestamp_seconds",
            "When the run started, in seconds since 1970.",
            [] if started is None else [((), started)],
        ),
        _gauge("duration_seconds", "How long the run took.", [((), result.seconds)]),
        _gauge("exit_code", "What runbook exited with; 0 is success.", [((), result.exit_code)]),
        _gauge("hosts", "Hosts by verdict.", [((("verdict", verdict),), verdicts[verdict]) for verdict in Verdict]),
        _gauge("hosts_left_out", "Hosts that were named, and left out of the run.", [((), len(result.left_out))]),
        _gauge(
            "steps", "Steps of all hosts by status.", [((("status", status),), statuses[status]) for status in Status]
        ),
        _gauge("owed_cleanups", "Clean-ups that runs owe to the hosts of this run.", [((), owed)]),
    ]


def _of_findings(result: RunResult) -> list[Gauge]:
    found = [finding for host in result.hosts for finding in host.findings]
    by_severity = Counter((each.severity, each.status) for each in found)
    by_id = Counter((each.id, each.severity, each.status) for each in found)
    reported = (Presence.PRESENT, Presence.GONE, Presence.UNKNOWN)
    return [
        _gauge(
            "findings",
            "Findings of all hosts by severity and status.",
            [
                ((("severity", severity), ("status", status)), by_severity[severity, status])
                for severity in Severity
                for status in reported
            ],
        ),
        _gauge(
            "finding_hosts",
            "Hosts by finding and its status.",
            [
                ((("finding", name), ("severity", severity), ("status", status)), by_id[name, severity, status])
                for name, severity in dict.fromkeys((each.id, each.severity) for each in found)
                for status in reported
            ],
        ),
    ]


def _of_hosts(result: RunResult) -> list[Gauge]:
    return [
        _gauge(
            "host_verdict",
            "Always 1; the label verdict says how the host ended.",
            [((("host", host_result.host), ("verdict", host_result.verdict)), 1) for host_result in result.hosts],
        ),
        _gauge(
            "host_duration_seconds",
            "How long the work on the host took.",
            [((("host", host_result.host),), host_result.seconds) for host_result in result.hosts],
        ),
        _gauge(
            "host_findings",
            "Findings that are present on the host at the end of the run, by severity.",
            [
                ((("host", host.host), ("severity", severity)), count)
                for host in result.hosts
                for severity in Severity
                if (
                    count := sum(
                        finding.severity is severity and finding.status is Presence.PRESENT for finding in host.findings
                    )
                )
            ],
        ),
    ]


def _gauge(name: str, text: str, samples: Sequence[tuple[Labels, float]]) -> Gauge:
    return Gauge(name=name, help=text, samples=samples)


def _label(text: str, *, ascii_only: bool) -> str:
    plain = printable(text)
    if ascii_only:
        plain = plain.encode("ascii", "backslashreplace").decode("ascii")
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3f}"
