"""Every row of the table holds, and every promised fault has a row."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.environment import Place, Told
from tests.faults.table import FAULTS, PROMISED, Fault
from tests.support.waiting import until

TESTS = Path(__file__).parents[1]
PROVOKED = {it.by: [row for row in FAULTS if row.by is it.by] for it in FAULTS if it.by}
ELSEWHERE = sorted({it.test for it in FAULTS if it.test})


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.end()


def said_as_expected(row: Fault, said: Told) -> None:
    """Hold a row against what was said."""
    assert said.code == row.code, said.out[-3000:] + said.err
    told = said.err
    if row.host:
        assert said.host(row.host)["verdict"] == row.verdict, said.out[-3000:] + said.err
        told = said.about(row.host, row.step)
    if row.step:
        assert said.step(row.host, row.step)["status"] == row.status, told
    for it in row.words:
        assert it in told


@pytest.mark.soak
@pytest.mark.real("root", "lab", "sshd", "setpriv", "sudo", "docker")
@pytest.mark.parametrize("rows", PROVOKED.values(), ids=lambda rows: rows[0].of.replace(" ", "-"))
def test_a_fault_is_said_clearly_and_nothing_is_lost_or_killed(rows, place):
    said = rows[0].by(place)
    for word in ("Traceback", "internal error:", "internal error in", "Exception"):
        assert word not in said.err
        assert word not in said.out
    if rows[0].host:
        assert said.document["exit_code"] == said.code
        assert sum(said.document["totals"].values()) == len(said.document["hosts"])
        assert {it["host"] for it in said.document["hosts"]} >= {row.host for row in rows}
    else:
        assert said.out == ""
        assert len(said.err.splitlines()) == 1, said.err
    for row in rows:
        said_as_expected(row, said)
    place.unharmed()


def test_every_promised_fault_is_in_the_table_and_every_row_is_provoked():
    assert {it.of for it in FAULTS} == set(PROMISED)
    assert [it.what for it in FAULTS if (it.by is None) == (not it.test)] == []
    assert [it.what for it in FAULTS if (it.host and not it.verdict) or (it.step and not it.status)] == []
    assert [it.what for it in FAULTS if not it.what.endswith(".") or it.code not in (0, 1, 2, 4, 5, 6, 130)] == []


def test_the_tests_that_stand_for_a_row_are_there_and_leave_themselves_out_nowhere():
    files = sorted({str(TESTS / it.partition("::")[0]) for it in ELSEWHERE})
    argv = (
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        *files,
    )
    done = subprocess.run(argv, capture_output=True, text=True, cwd=TESTS.parent, check=False) if files else None
    there = {it.removeprefix("tests/").partition("[")[0] for it in done.stdout.splitlines()} if done else set()
    assert [it for it in ELSEWHERE if it not in there] == [], done and done.stdout + done.stderr
    for it in ELSEWHERE:
        path, _, name = it.partition("::")
        assert _skips(TESTS / path, name) == [], it


def _skips(path: Path, name: str) -> list[str]:
    """What in the test called *name*, or around all tests of its file, leaves it out or lets it fail."""
    tree = ast.parse(path.read_text())
    parts = [it for it in tree.body if not isinstance(it, ast.FunctionDef) or it.name == name]
    words = ("skip", "skipif", "xfail", "importorskip")
    nodes = [it for part in parts for it in ast.walk(part) if not isinstance(part, ast.ClassDef)]
    return [it.attr for it in nodes if isinstance(it, ast.Attribute) and it.attr in words]


def test_a_test_that_would_be_left_out_is_seen(tmp_path):
    sample = tmp_path / "test_sample.py"
    sample.write_text("import pytest\ndef test_a():\n    pytest.skip('no')\ndef test_b():\n    pass\n")
    assert _skips(sample, "test_a") == ["skip"]
    assert _skips(sample, "test_b") == []
    sample.write_text("import pytest\npytestmark = pytest.mark.skipif(True)\ndef test_b():\n    pass\n")
    assert _skips(sample, "test_b") == ["skipif"]


@pytest.mark.real("root", "lab")
def test_what_is_left_behind_or_ended_on_a_host_is_seen(place):
    """Else every row would hold whatever was done to the hosts."""
    name, _, value = place.mark.partition("=")
    left = subprocess.Popen(["sleep", "60"], env={**os.environ, name: value})  # it has the mark from its first moment
    try:
        with pytest.raises(AssertionError, match="the last process of the program"):
            place.unharmed(within=0.2)
    finally:
        left.kill()
        left.wait()
    (host,) = place.lab("gpu-01=leftovers").lab.hosts
    place.unharmed(within=2)
    victim = next(it for it in Path("/proc").glob("[0-9]*") if _is_of(it, host.pid))
    os.kill(int(victim.name), signal.SIGKILL)
    until(lambda: not victim.exists())
    with pytest.raises(AssertionError, match="gpu-01 to be as it was"):
        place.unharmed(within=0.5)
    place.bystander.kill()
    place.bystander.wait()
    with pytest.raises(AssertionError, match="nothing to do with it"):
        place.unharmed(within=0)


def _is_of(process: Path, host: int) -> bool:
    """Whether *process* is a job on the lab host whose outer process is *host*."""
    try:
        line = (process / "cmdline").read_bytes()
        return (
            b"gsm8k_grpo" in line
            and (process / "ns/pid").readlink() == Path(f"/proc/{host}/ns/pid_for_children").readlink()
        )
    except OSError:
        return False
