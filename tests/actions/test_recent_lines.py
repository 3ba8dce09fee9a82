"""Lines of a log that are older than `since` count for nothing, whatever form their times have."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from runbook.errors import ConfigError
from runbook.language.arguments import build
from runbook.library.files import log_scan
from runbook.library.files.facts.log_reading import LogFile, LogReading
from runbook.text.timestamps import line_time
from runbook.values.types import Unknown
from tests.support.probe_driver import Here, drive
from tests.support.tables import every_row

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC).timestamp()
BERLIN = timezone(timedelta(hours=1))

FORMS = {
    "ISO with a zone": lambda at: at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.123456+00:00 "),
    "ISO in the host's zone": lambda at: at.strftime("%Y-%m-%d %H:%M:%S,123 - root - "),
    "in brackets": lambda at: at.strftime("[%Y-%m-%d %H:%M:%S TP4] "),
    "behind the process": lambda at: at.strftime("(WorkerDict pid=407) INFO %m-%d %H:%M:%S [core.py:554] "),
    "behind the rank": lambda at: at.strftime("[rank12]: [%Y-%m-%d %H:%M:%S] "),
    "syslog": lambda at: at.strftime("%b %e %H:%M:%S gpu-01 trainer[407]: "),
    "ctime": lambda at: at.strftime("[%a %b %e %H:%M:%S %Y] "),
    "glog": lambda at: at.strftime("E%m%d %H:%M:%S.089184 "),
    "Go": lambda at: at.strftime("%Y/%m/%d %H:%M:%S "),
    "compact": lambda at: at.strftime("%Y%m%d-%H:%M:%S "),
    "seconds": lambda at: f"{at.timestamp():.3f} ",
    "a level first": lambda at: at.strftime("WARNING %Y-%m-%d %H:%M:%S "),
}
WITHOUT = [
    "plain text",
    "step 2026 of 9000",
    "10:05:30 only the hour",
    "[E901 05:20:01.118 ProcessGroupNCCL",
    "",
    "404 not found",
]


def line(form: str, ago: float) -> str:
    return FORMS[form](datetime.fromtimestamp(NOW - ago, BERLIN))


def scan(lines: list[str], since: str = "10m", age: float = 0.0, clock: str = f"{NOW:.0f} +0100") -> log_scan.State:
    args = build(log_scan.Args, {"files": ["/x.log"], "signatures": {"bad": "BAD", "odd": "ODD"}, "since": since})
    file = LogFile(path="/x.log", whole=True, lines=tuple(lines), age=age)
    return log_scan._searched(args, LogReading(files=(file,), clock=clock))


@every_row("form", list(FORMS))
def test_an_old_line_is_left_out_and_a_new_one_counts(form):
    """Mutants: each expression of ``line_time``; ``since`` that keeps everything, or compares the wrong way."""
    old, new = f"{line(form, 3600)}BAD old", f"{line(form, 60)}BAD new"
    assert scan([old]).found == ()
    state = scan([old, "  BAD below the old one", new, "  BAD below the new one"])
    assert [(it.line, it.text.split("BAD")[1]) for it in state.matches] == [(3, " new"), (4, " below the new one")]
    assert state.counts == {"bad": 2, "odd": 0}


@every_row("text", WITHOUT)
def test_what_is_no_time_is_none(text):
    assert line_time(text, 0.0, NOW) is None


def test_a_log_without_times_is_unknown_where_it_was_written_to_since():
    """Mutants: ``undated`` that counts for nothing, or for everything."""
    state = scan(["BAD"])
    for value in (state.found, state.matches, state.counts["bad"]):
        assert isinstance(value, Unknown)
        assert "the lines of /x.log have no times" in value.why
    assert state.counts["odd"] == 0
    assert scan(["all is well"]).found == (), "nothing to be found, old or new"


def test_a_log_that_was_last_written_to_before_has_no_new_lines():
    """Mutant: ``since`` without the age of the file."""
    assert scan(["BAD"], age=3600.0).found == ()
    assert scan([f"{line('syslog', 60)}BAD"], age=3600.0).found == (), "a clock that is wrong in the lines"


def test_what_stands_before_the_first_time_belongs_to_it():
    assert scan(["BAD torn", f"{line('Go', 3600)}x", f"{line('Go', 60)}y"]).found == ()
    assert scan(["BAD torn", f"{line('Go', 60)}x"]).found == ("bad",)


def test_where_the_host_does_not_say_its_time_nothing_is_known():
    assert isinstance(scan([f"{line('Go', 60)}BAD"], clock="").found, Unknown)


@pytest.mark.parametrize("since", ["soon", "2026-01-31 12:00", "tomorrow"])
def test_a_since_that_is_no_time_is_a_mistake(since):
    with pytest.raises(ConfigError, match=r"point in time|zone"):
        build(log_scan.Args, {"files": ["/x"], "signatures": {"a": "b"}, "since": since})


def test_the_last_line_is_told_whatever_its_age():
    state = scan([f"{line('Go', 7200)}the end"], age=7200.0)
    assert state.last[0].text.endswith("the end")


def test_it_is_so_on_a_host(tmp_path):
    log = tmp_path / "a.log"
    log.write_text(f"{datetime.now(UTC).strftime('%Y-%m-%dT%H:%M:%SZ')} BAD now\n2001-01-01T00:00:00Z BAD then\n")
    args = build(log_scan.Args, {"files": [str(log)], "signatures": {"bad": "BAD"}, "since": "1h"})
    assert [it.line for it in drive(log_scan.probe(args), Here()).matches] == [1]
    os.utime(log, (time.time() - 7200,) * 2)
    assert drive(log_scan.probe(args), Here()).found == ()
