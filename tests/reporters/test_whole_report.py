"""A report that others read at any time is replaced as a whole, by the rules that hold for every report."""

from __future__ import annotations

import os

import pytest

from runbook.errors import ConfigError
from runbook.execution.fleet import Cancellation
from runbook.reporting.outputs import outputs_for
from runbook.reporting.whole_report import WholeReport, can_be_replaced
from runbook.values.event import RunStarted
from runbook.values.result import Mode
from tests.support.program import runbook
from tests.support.sample_runs import finished, sample_host

STRANGER = 54321

BEGUN = RunStarted(run="r", playbook="p", mode=Mode.RUN, hosts=())


@pytest.fixture
def prom(tmp_path):
    path = tmp_path / "run.prom"
    path.write_text("before\n")
    return path


def told(path, *events) -> tuple[int, list[str]]:
    """The exit code of a run that tells these events, and what is complained about."""
    said: list[str] = []
    with open(os.devnull, "w") as nobody:
        outputs = outputs_for("json", nobody, said.append, Cancellation(), reports=[str(path)])
        with outputs:
            for event in events:
                outputs.on(event)
    return outputs.code(0), said


def test_what_is_there_stays_until_the_run_is_over_and_is_then_another_file(prom):
    """Mutant: whole_report.py that writes into the file that is there."""
    with prom.open() as reader:
        assert told(prom, BEGUN, finished(sample_host(0))) == (0, [])
        assert reader.read() == "before\n"
    assert prom.read_text().endswith("# EOF\n")
    assert prom.stat().st_mode & 0o777 == 0o600
    assert os.listdir(prom.parent) == ["run.prom"]


def test_a_run_that_never_ends_leaves_what_was_there(prom):
    """Mutant: outputs.py that publishes whatever happened."""
    assert told(prom, BEGUN) == (0, [])
    assert prom.read_text() == "before\n"
    assert os.listdir(prom.parent) == ["run.prom"]


def test_a_directory_that_has_gone_meanwhile_is_a_report_that_is_lost(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    said: list[str] = []
    with open(os.devnull, "w") as nobody:
        outputs = outputs_for("json", nobody, said.append, Cancellation(), reports=[str(folder / "x.prom")])
        folder.rmdir()
        with outputs:
            outputs.on(finished())
    assert outputs.code(0) == 1
    assert said == [
        f"cannot write --report {folder}/x.prom: No such file or directory; the run continues without this output"
    ]


def test_a_link_of_our_own_leads_to_the_file_that_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "x.prom").symlink_to("there/y.prom")
    assert told(tmp_path / "x.prom", finished()) == (0, [])
    assert (tmp_path / "x.prom").is_symlink()
    assert os.listdir(tmp_path / "there") == ["y.prom"]


@pytest.mark.real("root")
def test_a_file_of_a_stranger_is_refused_and_one_that_he_makes_meanwhile_stays(tmp_path):
    """Mutants: whole_report.py without ``_refuse_foreign`` in ``__init__``, or in ``publish``."""
    tmp_path.chmod(0o1777)
    path = tmp_path / "x.prom"
    report = WholeReport(str(path))
    report.write("ours")
    path.write_text("theirs")
    os.chown(path, STRANGER, STRANGER)
    with pytest.raises(ConfigError, match="belongs to the user"):
        report.publish()
    with pytest.raises(ConfigError, match="belongs to the user"):
        WholeReport(str(path))
    assert path.read_text() == "theirs"
    assert os.listdir(tmp_path) == ["x.prom"]
    report.close()
    report.close()


def test_a_place_where_no_file_can_be_made_is_a_mistake_before_the_run(tmp_path):
    (tmp_path / "i.yaml").write_text("hosts: {a: {transport: local}}")
    (tmp_path / "p.yaml").write_text("name: p\nhosts: all\ndiagnose:\n  - {id: a, command: {argv: ['true']}}\n")
    where = ("run", str(tmp_path / "p.yaml"), "-i", str(tmp_path / "i.yaml"))
    said = runbook(*where, "--report", str(tmp_path / "no" / "x.prom"))
    assert (said.code, said.out) == (2, "")
    assert said.err.endswith("x.prom: No such file or directory\n")
    assert runbook(*where, "--report", str(tmp_path / "x.prom")).code == 0
    assert (
        'runbook_run_host_verdict{playbook="p",mode="run",host="a",verdict="healthy"} 1'
        in (tmp_path / "x.prom").read_text()
    )


def test_a_pipe_or_a_device_is_written_to_as_it_is(tmp_path):
    os.mkfifo(tmp_path / "x.prom")
    assert not can_be_replaced(str(tmp_path / "x.prom"))
    assert not can_be_replaced("/dev/null")
    assert can_be_replaced(str(tmp_path / "nothing yet.prom"))
