"""Logs that stand still, and logs that were rotated away."""

from __future__ import annotations

import os
import time

import pytest

from runbook.codec import to_json
from runbook.errors import ConfigError
from runbook.language.arguments import build
from runbook.library.files import log_scan
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each
from tests.support.tables import every_row

shells = pytest.mark.parametrize("shell", each(SHELLS))


def scanned(*files, shell="dash", **values):
    made = build(log_scan.Args, {"files": [str(it) for it in files], **values})
    return drive(log_scan.probe(made), Here(shell=SHELLS[shell]))


def aged(path, age, text):
    path.write_text(text)
    os.utime(path, (time.time() - age,) * 2)
    return path


@shells
def test_a_log_that_nothing_is_written_to_stands_still_with_its_last_line(tmp_path, shell):
    aged(tmp_path / "trainer a.log", 700, "step 3\nWaiting for training batch to arrive\n\n")
    aged(tmp_path / "orchestrator.log", 5, "working\n")
    state = scanned(tmp_path / "*.log", shell=shell, stalled_for="10m", signatures={"waits": "Waiting for"})
    assert [(it.file, it.text) for it in state.stalled] == [
        (f"{tmp_path}/trainer a.log", "Waiting for training batch to arrive")
    ]
    assert 690 < state.stalled[0].age < 800
    assert scanned(tmp_path / "*.log", shell=shell, stalled_for="20m").stalled == ()
    assert scanned(tmp_path / "*.log", shell=shell, signatures={"x": "y"}).stalled == ()


def test_a_log_from_an_hour_ahead_is_not_one_that_moves(tmp_path):
    """Mutants: log_scan.py taking an age below nothing for 0."""
    state = scanned(aged(tmp_path / "x.log", -3600, "x\n"), stalled_for="10m")
    assert "the clock of this host is wrong" in state.stalled.why
    assert isinstance(state.last[0].age, Unknown)


def test_an_empty_log_can_stand_still_too(tmp_path):
    (still,) = scanned(aged(tmp_path / "x", 700, ""), stalled_for="10m").stalled
    assert (still.file, still.text) == (f"{tmp_path}/x", "")


def test_a_link_is_as_old_as_what_it_leads_to(tmp_path):
    aged(tmp_path / "real.log", 700, "x\n")
    (tmp_path / "current.log").symlink_to("real.log")
    assert len(scanned(tmp_path / "current.log", stalled_for="10m").stalled) == 1


def test_no_log_is_none_that_moves(tmp_path):
    state = scanned(tmp_path / "*.log", stalled_for="10m")
    assert "no file matches" in to_json(state)["stalled"]["$unknown"]


@pytest.mark.real("root", "setpriv")
def test_a_log_that_may_not_be_read_is_not_known_to_move():
    made = build(log_scan.Args, {"files": ["/etc/shadow"], "stalled_for": "300d"})
    nobody = Here(shell=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "dash"))
    assert isinstance(drive(log_scan.probe(made), nobody).stalled, Unknown)


@shells
def test_what_was_rotated_away_is_searched_too(tmp_path, shell):
    aged(tmp_path / "x.log.1", 9000, "one\nfatal: out of luck\n")
    aged(tmp_path / "x.log", 5, "two\n")
    signatures = {"fatal": "fatal:"}
    assert scanned(tmp_path / "x.log", shell=shell, signatures=signatures).found == ()
    state = scanned(tmp_path / "x.log", shell=shell, signatures=signatures, rotated=True, newest=1, stalled_for="1m")
    assert [(it.file, it.line) for it in state.matches] == [(f"{tmp_path}/x.log.1", 2)]
    assert state.files == (f"{tmp_path}/x.log.1", f"{tmp_path}/x.log")
    assert (state.stalled, [it.text for it in state.last]) == ((), ["two"])


@every_row(
    "values",
    [
        {"files": ["/x"]},
        {"text": "x", "signatures": {"a": "b"}, "stalled_for": "1m"},
        {"text": "x", "signatures": {"a": "b"}, "rotated": True},
    ],
)
def test_a_mistake_is_refused(values):
    with pytest.raises(ConfigError):
        build(log_scan.Args, values)


def test_the_number_in_a_line_is_told_where_the_expression_names_one():
    text = "Train step 57/250 done.\nno number\nstep 9999999999999999999 is none\n"
    seen = scanned(text=text, signatures={"step": r"step (?P<number>[0-9]+)", "plain": "done"})
    assert [(it.signature, it.line, it.number) for it in seen.matches] == [
        ("step", 1, 57),
        ("plain", 1, None),
        ("step", 3, None),
    ]
