"""What `runbook prolog` concludes, and what it says in one line, in an exit code and in the reason of a drain."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from runbook.commands import prolog as command_module
from runbook.commands import prolog as prolog_command
from runbook.commands.input_files import known_playbooks
from runbook.commands.joined_playbooks import Conclusion, Named
from runbook.commands.prolog import (
    EXIT_CODES,
    LONGEST_LINE,
    LONGEST_REASON,
    Outcome,
    PrologOptions,
    drain_from,
    line_of,
    outcome_of,
    reason_of,
)
from runbook.errors import Cancelled, ConfigError, RunbookError
from runbook.execution.guards import Either, TimeLimit, WithinTime
from runbook.library.scheduler.facts.model import objection_to_reason
from runbook.plugins import discover
from runbook.values.command import Command, Completed, Effect
from runbook.values.playbook import Phase, Playbook, Step, Telling
from runbook.values.result import HostResult, Status, StepResult, Verdict
from tests.support.tables import every_row

LOST = Named(playbook="gpu-lost", finding="lost", say="GPU 3 is lost", next="x")
BOOKS = {"of_gpu_lost": Playbook(name="gpu-lost"), "of_b": Playbook(name="b")}


def concluded(verdict: Verdict, cause: Named | None = None, why: str = "") -> Conclusion:
    return Conclusion(host="here", verdict=verdict, cause=cause, why=why)


@every_row(
    ("conclusion", "outcome"),
    [
        (concluded(Verdict.HEALTHY), Outcome.HEALTHY),
        (concluded(Verdict.UNRESOLVED, LOST), Outcome.FAULT),
        (concluded(Verdict.UNRESOLVED, replace(LOST, finding="hung")), Outcome.FAULT),
        (concluded(Verdict.UNRESOLVED, replace(LOST, finding="no_answer", knows=False)), Outcome.UNKNOWN),
        *((concluded(it), Outcome.UNKNOWN) for it in Verdict if it is not Verdict.HEALTHY),
    ],
)
def test_only_what_is_known_is_a_fault_and_only_what_is_known_is_healthy(conclusion, outcome):
    """Mutants: ``outcome_of`` that takes any cause as a fault; that takes what is not known as healthy."""
    assert outcome_of(conclusion) is outcome


def test_unknown_alone_goes_by_the_option():
    """Mutants: any other number in ``EXIT_CODES``."""
    assert {(str(it), word): code for (it, word), code in EXIT_CODES.items()} == {
        ("healthy", "pass"): 0, ("healthy", "fail"): 0, ("fault", "pass"): 1, ("fault", "fail"): 1,
        ("unknown", "pass"): 0, ("unknown", "fail"): 2,
    }  # fmt: skip


@every_row(
    ("say", "reason"),
    [
        ("GPU 3 is lost", "gpu-lost: GPU 3 is lost"),
        ("a\n\"b\" 'c'; d | e & f [g] \\ $(h) `i` ü", "gpu-lost: a b c d e f g (h) i"),
        ("x" * 500, "gpu-lost: " + "x" * 106 + " ..."),
        ("x" * 110, "gpu-lost: " + "x" * 110),
    ],
)
def test_a_reason_is_one_bounded_line_that_slurm_and_a_shell_take(say, reason):
    """Mutants: ``_NOT_IN_REASON`` without one of its characters; ``reason_of`` without its limit."""
    found = reason_of(replace(LOST, say=say))
    assert found == reason
    assert len(found) <= LONGEST_REASON
    assert objection_to_reason(found) == ""


@every_row(
    ("outcome", "conclusion", "line"),
    [
        (Outcome.HEALTHY, concluded(Verdict.HEALTHY), "healthy: no fault found by gpu-lost, b"),
        (Outcome.FAULT, concluded(Verdict.UNRESOLVED, LOST), "fault: GPU 3 is lost (gpu-lost)"),
        (
            Outcome.UNKNOWN,
            concluded(Verdict.UNKNOWN, why="failed of_gpu_lost_smi: x"),
            "unknown: failed gpu-lost.smi: x",
        ),
        (Outcome.UNKNOWN, concluded(Verdict.FAILED), "unknown: gpu-lost, b: failed"),
        (
            Outcome.FAULT,
            concluded(Verdict.UNRESOLVED, replace(LOST, say="a\n\x1b")),
            "fault: a\\n\\x1b (gpu-lost)",
        ),
    ],
)
def test_the_line_says_the_outcome_and_why(outcome, conclusion, line):
    """Mutants: ``line_of`` with the prefixes of ids; that passes a line end or a control character on."""
    assert line_of(outcome, conclusion, BOOKS) == line


def test_the_line_is_bounded():
    """Mutant: ``line_of`` without ``LONGEST_LINE``."""
    assert (
        len(line_of(Outcome.FAULT, concluded(Verdict.UNRESOLVED, replace(LOST, say="x" * 999)), BOOKS)) == LONGEST_LINE
    )


STEP = StepResult.of(Step(id="drain", phase=Phase.REMEDIATE, action="scheduler"), Status.CHANGED, "why")
RESULT = HostResult(host="here", verdict=Verdict.FAILED, error="gone")


@every_row(
    ("step", "status", "say"),
    [
        (replace(STEP, verified=True, planned="drain it"), "drained", "drain it"),
        (STEP, "failed", "why"),
        (replace(STEP, status=Status.OK), "left", "nothing was sent: why"),
        (replace(STEP, status=Status.UNKNOWN), "failed", "why"),
        (replace(STEP, status=Status.FAILED, why=""), "failed", "gone"),
        (None, "failed", "gone"),
    ],
)
def test_a_drain_is_told_only_if_it_was_seen(step, status, say):
    """Mutants: ``drain_from`` that takes a change that nobody has seen as a drain."""
    found = drain_from(step, RESULT)
    assert found.status == status
    assert say in found.say


def command(*argv: str) -> Command:
    return Command(argv=argv, effect=Effect.READ)


class Nobody:
    """A person who is told nothing."""

    def can_stop(self, stop) -> None:
        pass

    def say(self, line: str) -> None:
        pass


TOY = """
name: toy
about: A toy.
diagnose: [{id: state, name: The state, command: {argv: ["true"]}}]
findings: [{id: broken, when: state.exit_code, severity: error, say: It is broken., advise: [Mend it.]}]
"""


@every_row(("used", "line"), [(0.0, "healthy: no fault found by toy"), (99.0, "not asked within 9 s (--within)")])
def test_the_time_that_the_start_has_taken_counts(tmp_path, monkeypatch, capsys, used, line):
    """Mutant: ``prolog`` whose time begins when it is called."""
    (tmp_path / "toy.yaml").write_text(TOY)
    monkeypatch.setattr(command_module, "age_of_this_process", lambda: used)
    command_module.prolog([str(tmp_path / "toy.yaml")], PrologOptions(within="9s"), Nobody())
    assert line in capsys.readouterr().out


def test_the_age_of_a_process_is_the_time_since_its_start():
    """Mutants: ``age_of_this_process`` by another field of /proc/self/stat; in ticks; by another clock."""
    started = time.monotonic()
    code = "from runbook.commands.prolog import age_of_this_process; print(age_of_this_process())"
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert 0.02 < float(done.stdout) < time.monotonic() - started + 0.02  # a tick of the kernel is 10 ms


@every_row(("within", "end"), [("5s", 104.0), ("1s", 100.75), ("1m", 159.0)])
def test_a_part_of_the_time_is_kept_for_ending_what_hangs(within, end):
    """Mutants: ``_limit`` without ``TO_END``; with a fixed part of a short time."""
    assert command_module._limit(within, 100.0).end == end


def test_scontrol_is_searched_for_where_a_session_finds_it(tmp_path, monkeypatch):
    """Mutants: ``_require_slurm`` without ``STANDARD_PATH``; that looks nowhere else."""
    (tmp_path / "scontrol").write_text("#!/bin/sh\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setattr(command_module, "STANDARD_PATH", str(tmp_path))
    monkeypatch.delenv("PATH")
    command_module._require_slurm("gpu-07")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="there is no Slurm here"):
        command_module._require_slurm("gpu-07")


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time


class Host:
    """Takes as long for each command as its argument says, or its timeout; *stopped*: it is asked to stop."""

    def __init__(self, clock: Clock, *, stopped: bool = False) -> None:
        self._clock, self._stopped = clock, stopped
        self.asked: list[str] = []

    def run(self, *commands):
        (command,) = commands
        self.asked.append(command.argv[0])
        needed = float(command.argv[1])
        self._clock.time += min(needed, command.timeout)
        if self._stopped:
            raise Cancelled("asked to stop", sent=True)
        late = needed > command.timeout
        return (Completed(exit_code=None if late else 0, stdout="" if late else command.argv[0], timed_out=late),)

    def close(self) -> None:
        pass


def within(clock: Clock, end: float = 8.0) -> TimeLimit:
    return TimeLimit(end=end, now=clock.now, words="8 s (--within)")


def test_one_that_hangs_leaves_time_for_others_and_counts_as_unknown():
    """Mutants: ``WithinTime`` that sends all at once; that gives all the time to one; that says ``timed out``; that
    asks a program that is known to hang first, or gives it half of the time.
    """
    clock = Clock()
    host = Host(clock)
    commands = [replace(command("smi", "3.5"), hangs="nvidia-smi"), command("df", "9"), command("log", "0")]
    answers = WithinTime(host, within(clock)).run(*commands)
    assert host.asked == ["df", "log", "smi"]
    assert [it.stdout for it in answers] == ["smi", "", "log"]
    assert answers[1].refused == "no answer from df 9 in 4.0 s, its part of 8 s (--within)"
    assert not answers[1].timed_out


def test_once_the_time_is_up_nothing_is_asked():
    """Mutant: ``WithinTime`` that goes on asking."""
    clock = Clock()
    host = Host(clock)
    smi = replace(command("smi", "9"), hangs="nvidia-smi")
    late, not_asked = WithinTime(host, within(clock)).run(smi, smi)
    assert (late.refused, host.asked) == ("no answer from nvidia-smi in 8.0 s, its part of 8 s (--within)", ["smi"])
    assert not_asked.refused == "not asked within 8 s (--within)"


def test_the_timeout_of_a_playbook_that_passes_first_is_its_own_answer():
    """Mutant: ``WithinTime`` that takes every timeout for its own."""
    clock = Clock()
    (answer,) = WithinTime(Host(clock), within(clock)).run(replace(command("df", "9"), timeout=2.0))
    assert (answer.timed_out, answer.refused, clock.time) == (True, "", 2.0)


def test_a_run_that_is_asked_to_stop_stops_and_an_end_by_the_limit_is_unknown():
    """Mutants: ``WithinTime`` that takes every ``Cancelled`` for its own; that takes none."""
    clock = Clock()
    with pytest.raises(Cancelled):
        WithinTime(Host(clock, stopped=True), within(clock)).run(command("one", "1"))
    smi = replace(command("smi", "9"), hangs="nvidia-smi")
    (answer,) = WithinTime(Host(clock, stopped=True), within(clock)).run(smi)
    assert answer.refused.startswith("no answer from nvidia-smi")


def test_either_of_two_interrupts_counts():
    """Mutants: ``Either`` with one of them alone."""
    over, not_over = (TimeLimit(end=end, now=lambda: 1.0, words="") for end in (1.0, 2.0))
    assert [Either(*pair).level() for pair in ((over, not_over), (not_over, over), (not_over, not_over))] == [1, 1, 0]


def test_no_finding_of_the_library_about_an_answer_that_is_missing_is_a_fault():
    """The findings that are there because nothing is known, of every playbook that a node may ask."""
    known = known_playbooks(discover()).usable.values()
    telling = {f"{book.name}.{rule.id}": rule.tells for book in known for rule in book.findings if rule.severity.drives}
    ignorant = {name for name, tells in telling.items() if tells is Telling.UNKNOWN}
    assert {name for name in telling if name.endswith((".no_answer", ".not_known", ".host_first"))} <= ignorant
    assert {"gpu-xid.unreadable", "zombie-gpu.no_answer"} <= ignorant
    faults = {"gpu-lost.lost", "gpu-health.hung", "host-oom.limit_not_known"}
    assert faults <= telling.keys() - ignorant


def test_an_error_of_ours_is_no_fault_of_the_node(monkeypatch):
    """Mutant: ``prolog`` that lets it pass, with the exit code of a fault."""

    def broken(*_: object) -> None:
        raise RuntimeError("x")

    monkeypatch.setattr(prolog_command, "_asked", broken)
    with pytest.raises(RunbookError) as caught:
        prolog_command.prolog(["gpu-health"], prolog_command.PrologOptions(), SimpleNamespace(can_stop=lambda _: None))
    assert caught.value.exit_code == 2
    assert "RuntimeError: x" in str(caught.value)
