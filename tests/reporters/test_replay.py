"""A run that was recorded event by event can be reported again by every reporter, word for word."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from runbook.codec import from_json, to_json
from runbook.reporting import reporters
from runbook.values.event import Event
from tests.support.program import PROGRAM, runbook

BOOK = """name: every
diagnose:
  - {id: look, command: {argv: [test, -e, FOLDER/fault]}}
  - {id: blind, command: {script: "printf 'caf\\\\351 \\\\033[31m'; exit 3"}}
findings:
  - {id: there, when: look.exit_code == 0, severity: error, say: "é\\u2028漢", settle: 2s}
  - {id: dark, when: blind.value == 'x', severity: warning, say: dark}
remediate:
  - {id: try, for: there, command: {check: {argv: [test, '!', -e, FOLDER/fault]}, do: {argv: [sh, -c, 'exit 7']}}, ignore_failure: true}
  - {id: again, for: there, command: {check: {argv: [test, '!', -e, FOLDER/fault]}, do: {argv: [rm, FOLDER/fault]}}}
  - {id: never, for: dark, command: {do: {argv: ['true']}}}
"""
ENDINGS = ("json", "txt", "jsonl", "html", "md", "xml", "prom")
HOSTS = (
    "hosts:\n  h1: {transport: local, gpu: none}\n  h2: {ssh_host: 127.0.0.1, ssh_port: 1}\n"
    "  h3: {transport: local, status: offline}\n"
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> tuple[list[str], Path]:
    """The lines of a run in which a person is asked, a host fails and another cannot be reached; and its folder."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "fault").touch()
    (folder / "every.yaml").write_text(BOOK.replace("FOLDER", str(folder)))
    (folder / "hosts.yaml").write_text(HOSTS)
    reports = [word for it in ENDINGS for word in ("--report", str(folder / f"report.{it}"))]
    argv = (
        *PROGRAM,
        "run",
        str(folder / "every.yaml"),
        "--hosts",
        "all",
        "-i",
        str(folder / "hosts.yaml"),
        "--output",
        "jsonl",
    )
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        (*argv, *reports), stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    os.close(theirs)
    os.write(ours, b"y\n")
    out, err = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == 1, err
    return out.splitlines(), folder


def events(lines: list[str]) -> list[Event]:
    return [from_json(Event, json.loads(it)) for it in lines]


def test_every_kind_of_event_happens_and_each_is_one_line(recorded):
    lines, _ = recorded
    kinds = {json.loads(it)["kind"] for it in lines}
    elsewhere = {"batch_finished"}  # tests/e2e/test_batches.py
    assert kinds | elsewhere == {re.sub(r"(?<!^)(?=[A-Z])", "_", it.__name__).lower() for it in get_args(Event)}
    assert (json.loads(lines[0])["kind"], json.loads(lines[-1])["kind"]) == ("run_started", "run_finished")


def test_every_host_has_its_end_once(recorded):
    told = [it.result.host for it in events(recorded[0]) if it.kind == "host_finished"]
    assert sorted(told) == ["h1", "h2"]


def test_events_come_back_as_they_were(recorded):
    lines, _ = recorded
    assert [to_json(it) for it in events(lines)] == [json.loads(it) for it in lines]


@pytest.mark.parametrize("name", reporters.names())
@pytest.mark.slow
def test_a_record_told_again_is_word_for_word_what_was_told(recorded, name):
    lines, folder = recorded
    again = io.StringIO()
    reporter = reporters.make(name, again)
    for it in events(lines):
        reporter.on(it)
    report = next((it for it in folder.glob("report.*") if reporters.for_file(str(it)) == name), None)
    assert again.getvalue()
    assert report is None or again.getvalue() == report.read_text()


def test_events_are_written_as_they_happen(tmp_path):
    waits = f"until [ -e {tmp_path}/go ]; do sleep 0.1; done"
    (tmp_path / "slow.yaml").write_text(f"name: slow\ndiagnose:\n  - {{id: look, command: {{script: '{waits}'}}}}\n")
    (tmp_path / "hosts.yaml").write_text("hosts:\n  h1: {transport: local, gpu: none}\n")
    argv = (
        *PROGRAM,
        "run",
        str(tmp_path / "slow.yaml"),
        "--hosts",
        "h1",
        "-i",
        str(tmp_path / "hosts.yaml"),
        "--output",
        "jsonl",
    )
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert json.loads(process.stdout.readline())["kind"] == "run_started"
    assert json.loads(process.stdout.readline())["kind"] == "host_started"
    (tmp_path / "go").touch()  # without it the probe is ended, and has failed
    assert json.loads(process.stdout.readline())["kind"] == "host_planned"
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_no_line_of_a_record_ends_before_its_end(recorded):
    lines, folder = recorded
    text = (folder / "report.jsonl").read_text()
    assert text.splitlines() == lines
    assert "\u2028" not in text
    assert any("\u2028" in json.dumps(to_json(it), ensure_ascii=False) for it in events(lines))


def test_a_dry_run_tells_the_end_of_a_host_once_too(recorded):
    _, folder = recorded
    argv = (
        "run",
        str(folder / "every.yaml"),
        "--hosts",
        "all",
        "-i",
        str(folder / "hosts.yaml"),
        "--dry-run",
        "--output",
        "jsonl",
    )
    said = [json.loads(it) for it in runbook(*argv).out.splitlines()]
    assert sorted(it["result"]["host"] for it in said if it["kind"] == "host_finished") == ["h1", "h2"]
