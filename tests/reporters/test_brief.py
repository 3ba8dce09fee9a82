"""A host in a few lines: its verdict and why, what was done or would be, and what a person does next."""

from __future__ import annotations

import io
from dataclasses import replace

from runbook.reporting.reporters import make
from runbook.reporting.wording.host_digest import SHOWN_ALSO, SHOWN_NAMES, SHOWN_UNKNOWN
from runbook.reporting.wording.host_lines import MOST, MOST_BELOW, brief_lines
from runbook.values.event import HostFinished, RunFinished, RunStarted, StepFinished
from runbook.values.plan import Presence, Risk
from runbook.values.playbook import Phase, Severity
from runbook.values.result import HostResult, Mode, RunResult, SentCommand, Status, StepResult, Verdict, Victim
from runbook.values.verbosity import Verbosity
from tests.reporters.made_up_results import finding, host, said, step
from tests.support.tables import every_row

UUID = "GPU-1ab00000-0000-4000-8000-000000000000"


def shown(*hosts: HostResult, verbosity: Verbosity = Verbosity.NORMAL, **rest) -> list[str]:
    return said(*hosts, verbosity=verbosity, **rest)


def probe(status: Status, why: str, name: str = "gpus", **keys) -> StepResult:
    return step(status, why, id=name, phase=Phase.DIAGNOSE, **keys)


def test_an_unresolved_host_has_its_cause_what_was_done_and_what_comes_next():
    found = finding("held", say="pid 7 holds GPU 0", advise=("Stop the container.", "Stop the pod.", "Ask."))
    also = finding("hot", say="GPU 1 is hot")
    warned = finding("mode", severity=Severity.WARNING, say="odd mode", advise=("Change it.",))
    told = finding("summary", severity=Severity.INFO, say="2 of 2 GPUs")
    tried = step(Status.FAILED, "end 1 process: it came back", victims=(Victim(pid=7, user="ada", command="x"),))
    quiet = [probe(Status.OK, "2 GPUs"), step(Status.SKIPPED, "absent", id="reset"), step(Status.OK, "", id="idle")]
    assert shown(host(1, Verdict.UNRESOLVED, *quiet, tried, findings=(told, warned, found, also)))[:6] == [
        "gpu-01: unresolved: held: pid 7 holds GPU 0",
        "  also hot: GPU 1 is hot",
        "  warning mode: odd mode",
        "  failed stop: end 1 process: it came back",
        "  next: Stop the container.",
        "  else: Stop the pod. (1 more: -v)",
    ]


def test_a_critical_finding_is_the_cause_before_an_error():
    worse = finding("lost", severity=Severity.CRITICAL, say="GPU 0 is lost")
    assert brief_lines(host(1, Verdict.UNRESOLVED, findings=(finding("held"), worse)))[:2] == [
        "unresolved: lost: GPU 0 is lost",
        "also held: XID on 3 GPUs",
    ]


def test_a_plan_has_whom_it_hits_the_commands_and_what_may_follow():
    victims = tuple(Victim(pid=it, user="root", command="train.py") for it in (7, 8))
    stop = step(Status.WOULD_CHANGE, "end 2 processes", victims=victims, risk=Risk.KILLS_PROCESSES)
    sent = SentCommand(line="x", effect="write", shown=f"$ nvidia-smi --gpu-reset -i {UUID}")
    reset = step(Status.WOULD_CHANGE, f"reset GPU 0 ({UUID})", id="reset", commands=(sent,))
    after = step(Status.SKIPPED, "wedged is absent", id="later", condition="only if wedged is present after stop")
    nothing = step(Status.SKIPPED, "not found", id="other")
    seen = probe(Status.OK, "", state={"gpus": [{"uuid": UUID, "index": 0}]})
    plan = host(
        1, Verdict.PLANNED, seen, stop, reset, after, nothing, findings=(finding("held", say=f"{UUID} is held"),)
    )
    assert brief_lines(plan) == [
        "planned: held: GPU 0 is held",
        "would change stop: end 2 processes [kills-processes]",
        "  pid 7 (root) train.py",
        "  pid 8 (root) train.py",
        "would change reset: reset GPU 0",
        f"  $ nvidia-smi --gpu-reset -i {UUID}",
        "skipped later: wedged is absent [only if wedged is present after stop]",
    ]
    assert brief_lines(plan, declined=True) == ["planned: held: GPU 0 is held"]


@every_row(
    ("gpus", "words"),
    [
        ([{"uuid": UUID, "index": 3}], "GPU 3 is held"),
        ([{"uuid": "", "index": 3}], f"{UUID} is held"),
        ([{"uuid": UUID, "index": {"$unknown": "not listed"}}], f"{UUID} is held"),
        ("none", f"{UUID} is held"),
        (["a line"], f"{UUID} is held"),
    ],
)
def test_a_gpu_is_called_by_its_index_where_that_is_known(gpus, words):
    seen = probe(Status.OK, "", state={"gpus": gpus})
    (line, *_) = brief_lines(host(1, Verdict.UNRESOLVED, seen, findings=(finding("held", say=f"{UUID} is held"),)))
    assert line == f"unresolved: held: {words}"


def test_a_probe_that_failed_is_said_once_and_what_rests_on_it_is_only_named():
    why = "nvidia-smi did not answer within 30 s: a driver call may hang"
    on_it = {"why": f"gpus: {why}", "rests_on": ("gpus",)}
    blind = [finding(f"f{it}", Presence.UNKNOWN, **on_it) for it in range(SHOWN_NAMES + 2)]
    other = finding("log", Presence.UNKNOWN, why="no such file")
    minor = finding("minor", Presence.UNKNOWN, severity=Severity.WARNING, why="whatever")
    after = step(Status.BLOCKED, "it comes after stop, which was blocked", id="reset", rests_on=("stop",))
    steps = (probe(Status.FAILED, why), step(Status.BLOCKED, id="stop", **on_it), after)
    lines = brief_lines(host(1, Verdict.UNKNOWN, *steps, findings=(*blind, other, minor)))
    assert lines == [
        f"unknown: failed gpus: {why}",
        "not known, as gpus did not answer: f0, f1, f2, f3, f4, f5 and 2 more",
        "unknown: log: no such file",
        "not done, as that is not known: stop, reset",
    ]
    hung = finding("hung", say=f"nvidia-smi hangs: {why}", advise=("Look.",))
    lines = brief_lines(host(1, Verdict.UNKNOWN, *steps, findings=(*blind, hung)))
    assert lines == [
        f"unknown: hung: nvidia-smi hangs: {why}",
        "next: Look.",
        "not known, as gpus did not answer: f0, f1, f2, f3, f4, f5 and 2 more",
        "not done, as that is not known: stop, reset",
    ]


def test_of_a_host_of_which_something_is_unknown_a_warning_with_advice_is_the_cause_and_an_information_is_not():
    blind = finding("stuck", Presence.UNKNOWN, why="load has no value (null), in what a saw (in: `load > 3`)")
    warned = finding("unmeasured", severity=Severity.WARNING, say="the load is not known", advise=("Look.",))
    told = finding("summary", severity=Severity.INFO, say="2 GPUs", advise=("Read.",))
    assert brief_lines(host(1, Verdict.UNKNOWN, findings=(blind, warned, told))) == [
        "unknown: unmeasured: the load is not known",
        "next: Look.",
        "unknown: stuck: load has no value (null), in what a saw",
    ]
    assert brief_lines(host(1, Verdict.UNKNOWN, findings=(blind, told)))[:2] == [
        "unknown: stuck: load has no value (null), in what a saw",
        "info summary: 2 GPUs",
    ]


def test_more_reasons_than_are_shown_are_named_with_the_way_to_them():
    blind = tuple(finding(f"f{it}", Presence.UNKNOWN, why="x" * (it + 1)) for it in range(SHOWN_UNKNOWN + 2))
    lines = brief_lines(host(1, Verdict.UNKNOWN, findings=blind))
    assert lines == ["unknown: f0: x", "unknown: f1: xx", "unknown, too: f2, f3 (-v: why)"]
    many = tuple(finding(f"g{it}", say=f"s{it}") for it in range(SHOWN_ALSO + 3))
    assert brief_lines(host(1, Verdict.UNRESOLVED, findings=many))[1] == "also g1: s1; g2: s2; g3: s3; 2 more (-v)"


def test_a_failed_change_without_a_finding_is_the_cause_and_is_said_once():
    assert brief_lines(host(1, Verdict.FAILED, step(Status.FAILED, "exit code 4"))) == ["failed: stop: exit code 4"]


def test_steps_that_one_reason_holds_back_are_named_together():
    held = [step(Status.BLOCKED, "needs --yes: it deletes-data", id=it) for it in ("a", "b")]
    lines = brief_lines(host(1, Verdict.UNRESOLVED, *held, findings=(finding("full", say="it is full"),)))
    assert lines[1] == "not done: a, b: needs --yes: it deletes-data"
    assert lines[2].startswith("next: nothing was changed without a yes")


FINE = {
    "healthy": (host(1, Verdict.HEALTHY, probe(Status.OK, "all well")), ["healthy"]),
    "warned": (
        host(1, Verdict.HEALTHY, findings=(finding("w", severity=Severity.WARNING, say="odd", advise=("Mend it.",)),)),
        ["healthy", "warning w: odd", "next: Mend it."],
    ),
    "informed": (
        host(1, Verdict.HEALTHY, findings=(finding("i", severity=Severity.INFO, say="2 GPUs", advise=("Read.",)),)),
        ["healthy", "info i: 2 GPUs"],
    ),
    "resolved": (
        host(1, Verdict.RESOLVED, step(Status.CHANGED, "ended 3"), findings=(finding(status=Presence.GONE),)),
        ["resolved: xid is gone (was: XID on 3 GPUs)", "changed stop: ended 3"],
    ),
    "cancelled": (
        host(1, Verdict.CANCELLED, error="interrupted"),
        ["cancelled", "interrupted", "done: nothing was changed"],
    ),
}


@every_row("what", FINE)
def test_a_host_that_is_well_has_no_more_lines_than_it_needs(what):
    result, lines = FINE[what]
    assert brief_lines(result)[: len(lines)] == lines
    if what != "cancelled":
        assert len(brief_lines(result)) == len(lines)


def test_no_line_but_what_is_to_be_done_is_endless():
    long = "word " * 200
    found = finding("a", say=long, advise=(f"Paste `{long}`.",))
    lines = brief_lines(host(1, Verdict.UNRESOLVED, findings=(found, finding("b", say=long))))
    assert [len(it) for it in lines[:2]] == [MOST, MOST_BELOW]
    assert lines[2].endswith("word `.")


def test_hosts_that_cannot_be_reached_for_one_reason_are_one_line_whatever_their_addresses():
    names = [
        host(
            it, Verdict.UNREACHABLE, error=f"{'abcdefghij'[it % 10] * (1 + it)}.example:22: the name cannot be resolved"
        )
        for it in range(60)
    ]
    for verbosity in (Verbosity.NORMAL, Verbosity.QUIET, Verbosity.VERBOSE):
        lines = shown(*names, verbosity=verbosity)
        assert sum("cannot be resolved" in it for it in lines) == 1
        assert any(it.startswith("gpu-[00-59]: unreachable") for it in lines)
    one = shown(names[3])
    assert one[0] == "gpu-03: unreachable: dddd.example:22: the name cannot be resolved"
    assert one[1].startswith("  next: check the address in the inventory")


def test_the_steps_of_hosts_that_cannot_be_reached_say_nothing_of_their_own():
    def down(number: int) -> HostResult:
        error = f"10.0.0.{number}:22: connection refused"
        return host(
            number, Verdict.UNREACHABLE, step(Status.UNREACHABLE, error), step(Status.UNREACHABLE, error), error=error
        )

    assert shown(down(1), down(2))[:2] == [
        "gpu-[01-02]: unreachable: connection refused",
        "  next: nothing listens on this port: check that host and sshd are up, and the address and port",
    ]
    cut = replace(
        down(3), steps=(step(Status.CHANGED, "ended 3"), step(Status.UNREACHABLE, "10.0.0.3:22: connection refused"))
    )
    assert "  changed stop: ended 3" in shown(cut)


def test_a_step_that_was_called_for_and_found_nothing_to_do_says_so():
    nothing = step(Status.OK, "nothing to remove matches /tmp/x", id="clean")
    lines = brief_lines(host(1, Verdict.UNRESOLVED, nothing, findings=(finding("full", say="no room"),)))
    assert lines == ["unresolved: full: no room", "ok clean: nothing to remove matches /tmp/x"]
    assert "ok clean" not in "".join(brief_lines(host(1, Verdict.RESOLVED, nothing)))


def run_of(*hosts: HostResult, verbosity: Verbosity, code: int = 0, mode: Mode = Mode.RUN) -> str:
    stream = io.StringIO()
    reporter = make("console", stream, verbosity)
    reporter.on(RunStarted(run="r", playbook="p", mode=mode, hosts=tuple(it.host for it in hosts)))
    for it in hosts:
        for one in it.steps:
            reporter.on(StepFinished(host=it.host, result=one))
        reporter.on(HostFinished(result=it))
    result = RunResult(run="r", playbook="p", mode=mode, started_at="", seconds=1, exit_code=code, hosts=hosts)
    reporter.on(RunFinished(result=replace(result, totals={it.verdict.value: 1 for it in hosts})))
    return stream.getvalue()


def test_each_fact_is_said_once():
    """Mutants: event_lines.py that also says how each step and host ends, or a recap that sums up what it says."""
    bad = host(
        1,
        Verdict.UNRESOLVED,
        step(Status.CHANGED, "ended 3"),
        findings=(finding("held", say="4 hold it", advise=("Go.",)),),
    )
    text = run_of(bad, host(2, Verdict.HEALTHY), verbosity=Verbosity.NORMAL, code=1)
    assert [text.count(it) for it in ("4 hold it", "ended 3", "next: Go.", "gpu-02: healthy")] == [1, 1, 1, 1]
    long = run_of(bad, host(2, Verdict.HEALTHY), verbosity=Verbosity.VERBOSE, code=1)
    assert long.count("ended 3") == 2, "as it ends, and in the recap"
    assert "gpu-02: healthy (0.2 s)" in long


def test_quiet_says_what_is_wrong_and_nothing_where_all_is_well():
    fine, bad = host(1, Verdict.HEALTHY), host(2, Verdict.UNRESOLVED, findings=(finding("held", say="4 hold it"),))
    assert run_of(fine, verbosity=Verbosity.QUIET) == ""
    assert run_of(fine, bad, verbosity=Verbosity.QUIET, code=1).splitlines() == [
        "gpu-02: unresolved: held: 4 hold it", "p: 1 healthy, 1 unresolved in 1 s", "exit code 1",
    ]  # fmt: skip
    plan = host(3, Verdict.PLANNED, step(Status.WOULD_CHANGE, "end 4"), findings=(finding("held", say="4 hold it"),))
    assert "would change stop: end 4" in run_of(plan, verbosity=Verbosity.QUIET, mode=Mode.PLAN)


def test_a_plan_that_was_refused_is_not_shown_again():
    plan = host(1, Verdict.PLANNED, step(Status.WOULD_CHANGE, "end 4"), findings=(finding("held", say="4 hold it"),))
    lines = run_of(plan, verbosity=Verbosity.NORMAL, code=130, mode=Mode.PLAN).splitlines()
    assert lines[2:] == [
        "gpu-01: planned: held: 4 hold it",
        "",
        "p: 1 planned in 1 s; nothing was changed",
        "exit code 130",
    ]


def test_what_exec_prints_is_shown_whatever_the_verbosity():
    sent = SentCommand(line="w", effect="read", exit_code=0, stdout="load 3\n")
    ran = host(1, Verdict.HEALTHY, probe(Status.OK, "", "exec", action="command", commands=(sent,)))
    for verbosity in Verbosity:
        assert "  | load 3" in shown(ran, playbook="exec", verbosity=verbosity)
