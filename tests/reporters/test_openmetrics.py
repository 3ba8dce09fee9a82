"""Metrics of a run: valid in both text formats, escaped, and the same series from run to run."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from runbook.reporting.reporters.openmetrics import Reporter
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Severity
from runbook.values.result import HostResult, Verdict
from tests.reporters.hostile_texts import HOSTILE
from tests.support.sample_runs import finished, sample_host, sample_of
from tests.support.sshd import free_port
from tests.support.tables import every_row
from tests.support.waiting import until

LABEL = r'[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"'
SAMPLE = re.compile(rf"(runbook_run_[a-z_]+)\{{({LABEL}(?:,{LABEL})*)\}} (-?[0-9]+(?:\.[0-9]+)?)")


def written(*hosts: HostResult, **keys) -> str:
    stream = io.StringIO()
    Reporter(stream).on(finished(*hosts, **keys))
    return stream.getvalue()


def samples(text: str) -> dict[tuple[str, ...], float]:
    """The samples by name and values of labels, behind playbook and mode; fails where a line is not of the format."""
    found: dict[tuple[str, ...], float] = {}
    family, closed = "", set()
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""]
    for line in lines[:-2]:
        if line.startswith("# HELP "):
            closed.add(family)
            family = line.split(" ")[2]
            assert family not in closed, "the samples of a metric stand together"
            assert "\\" not in line
        elif line.startswith("# "):
            assert line == f"# TYPE {family} gauge"
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == family
            labels = [
                re.sub(r"\\(.)", lambda it: {"n": "\n"}.get(it[1], it[1]), it)
                for it in re.findall(r'="((?:[^"\\]|\\.)*)"', match[2])
            ]
            key = (family.removeprefix("runbook_run_"), *labels[2:])
            assert key not in found, "each sample once"
            found[key] = float(match[3])
    return found


def test_the_run_its_hosts_and_findings_are_counted():
    said = samples(written(*map(sample_host, range(10))))
    assert said["info", "20261122T185036Z-1753"] == 1
    assert said["start_timestamp_seconds",] == 1795373436
    assert said["duration_seconds",] == 51.516
    assert said["exit_code",] == 1
    assert {it: said["hosts", it] for it in ("healthy", "resolved", "failed", "drifted")} == {
        "healthy": 4,
        "resolved": 2,
        "failed": 1,
        "drifted": 0,
    }
    assert said["hosts_left_out",] == said["owed_cleanups",] == 1
    assert (said["steps", "failed"], said["steps", "changed"], said["steps", "unknown"]) == (1, 6, 0)
    assert (
        said["findings", "error", "present"],
        said["findings", "error", "gone"],
        said["findings", "error", "unknown"],
    ) == (1, 2, 1)
    assert said["finding_hosts", "wedged", "error", "unknown"] == 1
    assert said["host_verdict", "gpu-0007", "failed"] == 1
    assert said["host_duration_seconds", "gpu-0008"] == 10
    assert said["host_findings", "gpu-0007", "error"] == 1


def test_what_did_not_happen_is_zero_and_not_missing():
    """Mutant: openmetrics.py that leaves out verdicts that no host has."""
    said = samples(written())
    assert {said["hosts", it] for it in Verdict} == {0}
    assert said["exit_code",] == 1


def test_a_run_without_a_start_has_no_start():
    assert ("start_timestamp_seconds",) not in samples(written(started_at=""))


@every_row("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_stays_in_its_label(text):
    """Mutants: openmetrics.py ``_label`` without ``printable``, or without one of its three escapes."""
    there = Finding(id=text, severity=Severity.ERROR, status=Presence.PRESENT, say=text)
    page = written(HostResult(host=text, verdict=Verdict.FAILED, findings=(there,)), playbook=text, run=text)
    assert not any(it[0] == "owned" for it in samples(page))
    page.encode("utf-8")


def test_a_stream_that_lacks_letters_gets_them_written_out():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Reporter(stream).on(finished(HostResult(host="漢", verdict=Verdict.HEALTHY)))
    assert samples(raw.getvalue().decode("ascii"))["host_verdict", "\\u6f22", "healthy"] == 1


@pytest.mark.slow
@pytest.mark.real("node_exporter")
def test_a_real_node_exporter_takes_the_file(tmp_path):
    (tmp_path / "a.prom").write_text(written(*sample_of(100).hosts))
    (tmp_path / "b.prom").write_text(written(HostResult(host='x"} 1\n\\', verdict=Verdict.HEALTHY), playbook="other"))
    port = free_port()
    argv = ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}", "--collector.disable-defaults", "--collector.textfile",
            f"--collector.textfile.directory={tmp_path}"]  # fmt: skip
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            page = scraped(port)
        finally:
            os.kill(process.pid, signal.SIGTERM)
        said = process.stderr.read() if process.stderr else ""
    assert "node_textfile_scrape_error 0" in page, said
    assert 'runbook_run_hosts{mode="run",playbook="zombie-gpu",verdict="healthy"} 40' in page
    assert 'runbook_run_host_verdict{host="x\\"} 1\\n\\\\",mode="run",playbook="other",verdict="healthy"} 1' in page


def scraped(port: int) -> str:
    def page() -> str:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            return answer.read().decode()
        return ""

    return until(page, "node_exporter listens")


def test_the_file_of_the_collector_is_never_half_there():
    """What is replaced is said by the reporter; how: test_whole_report.py."""
    from runbook.reporting import reporters

    assert {it for it in reporters.names() if reporters.replaces(it)} == {"openmetrics"}
    assert reporters.for_file(str(Path("x.prom"))) == "openmetrics"
