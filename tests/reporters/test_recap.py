"""A recap tells every host once, tells together what is alike, and hides nobody's reason."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from engine.reporters.console import show_plans
from engine.reporters.console.recap import ONE_SCREEN, SHOWN_GROUPS, SHOWN_REASONS, recap
from engine.values.plan import Finding, Presence, Risk
from engine.values.playbook import Phase, Severity
from engine.values.result import HostPlan, HostResult, Mode, RunResult, SentCommand, Status, StepResult, Verdict, Victim


def step(status: Status, why: str, **keys) -> StepResult:
    return StepResult(
        **{
            "id": "stop",
            "phase": Phase.REMEDIATE,
            "action": "pkill",
            "status": status,
            "why": why,
            "verified": True,
            **keys,
        }
    )


def host(
    number: int, verdict: Verdict, *steps: StepResult, findings: tuple[Finding, ...] = (), error: str | None = None
) -> HostResult:
    return HostResult(
        host=f"gpu-{number:02}", verdict=verdict, steps=steps, findings=findings, error=error, seconds=number / 10
    )


def said(*hosts: HostResult, playbook: str = "zombie-gpu") -> list[str]:
    totals = {
        it.value: sum(one.verdict is it for one in hosts) for it in Verdict if any(one.verdict is it for one in hosts)
    }
    return recap(
        RunResult(
            run="r", playbook=playbook, mode=Mode.RUN, started_at="", seconds=1, exit_code=0, hosts=hosts, totals=totals
        )
    )


def test_hosts_that_differ_only_in_counts_and_pids_are_told_together():
    hosts = [
        host(
            number,
            Verdict.RESOLVED,
            step(
                Status.CHANGED,
                f"stopped {3 + number % 3} processes",
                victims=tuple(
                    Victim(pid=100 * number + it, user="root", command="train.py") for it in range(3 + number % 3)
                ),
            ),
        )
        for number in range(1, 39)
    ]
    assert said(*hosts)[:4] == [
        "",
        "gpu-[01-38]: resolved",
        "  changed stop: stopped 3..5 processes",
        "    pid 100..3804 (root) train.py (3..5 of these)",
    ]


def test_hosts_of_whom_exactly_the_same_is_said_are_told_as_one_host_is():
    one, two = (host(it, Verdict.RESOLVED, step(Status.CHANGED, "stopped 3 processes")) for it in (1, 2))
    assert said(one, two)[1:3] == ["gpu-[01-02]: resolved", *said(one)[2:3]]


def finding(name: str = "xid", status: Presence = Presence.PRESENT, **keys) -> Finding:
    return Finding(**{"id": name, "severity": Severity.ERROR, "status": status, "say": "XID on 3 GPUs", **keys})


APART = {
    "verdicts": (host(1, Verdict.RESOLVED), host(2, Verdict.HEALTHY)),
    "findings": (
        host(1, Verdict.UNRESOLVED, findings=(finding("x1"),)),
        host(2, Verdict.UNRESOLVED, findings=(finding("x2"),)),
    ),
    "presence": (
        host(1, Verdict.RESOLVED, findings=(finding(status=Presence.GONE),)),
        host(2, Verdict.RESOLVED, findings=(finding(status=Presence.PRESENT),)),
    ),
    "severity": (
        host(1, Verdict.UNRESOLVED, findings=(finding(),)),
        host(2, Verdict.UNRESOLVED, findings=(finding(severity=Severity.CRITICAL),)),
    ),
    "what is found": (
        host(1, Verdict.UNRESOLVED, findings=(finding(say="XID 79 on GPU 0"),)),
        host(2, Verdict.UNRESOLVED, findings=(finding(say="XID 48 on GPU 0"),)),
    ),
    "exit codes": (
        host(1, Verdict.FAILED, step(Status.FAILED, "exit code 1")),
        host(2, Verdict.FAILED, step(Status.FAILED, "exit code 137")),
    ),
    "errors": (
        host(1, Verdict.UNREACHABLE, error="refused (111)"),
        host(2, Verdict.UNREACHABLE, error="refused (113)"),
    ),
    "steps": (
        host(1, Verdict.FAILED, step(Status.FAILED, "it is there", id="a")),
        host(2, Verdict.FAILED, step(Status.FAILED, "it is there", id="b")),
    ),
}


@pytest.mark.parametrize("what", APART)
def test_what_differs_in_more_than_amounts_is_told_apart(what):
    lines = said(*APART[what])
    assert any(it.startswith("gpu-01: ") for it in lines)
    assert any(it.startswith("gpu-02: ") for it in lines)


def test_unreachable_hosts_are_told_together_whatever_their_addresses_and_times():
    hosts = [host(it, Verdict.UNREACHABLE, error=f"10.0.0.{it}:22: no answer within {it}.5 s") for it in range(1, 9)]
    assert said(*hosts)[1:3] == ["gpu-[01-08]: unreachable", "  …:22: no answer within 1.5 s..8.5 s"]


def test_what_programs_printed_is_never_mixed():
    sent = [SentCommand(line="w", effect="read", exit_code=0, stdout=f"load {it} users\n") for it in range(60)]
    hosts = [
        host(
            number,
            Verdict.HEALTHY,
            step(Status.OK, "", id="exec", action="command", phase=Phase.DIAGNOSE, commands=(it,)),
        )
        for number, it in enumerate(sent)
    ]
    assert sum("| load" in it for it in said(*hosts, playbook="exec")) == 60


def test_a_long_recap_ends_with_every_reason_on_one_screen():
    bad = [host(it, Verdict.FAILED, step(Status.FAILED, f"exit code {it % 5}")) for it in range(60)]
    fine = [host(60 + it, Verdict.RESOLVED, step(Status.CHANGED, "done", id=f"s{it}")) for it in range(39)]
    lines = said(*fine, *bad)
    end = lines[next(number for number, it in enumerate(lines) if it.startswith("zombie-gpu: ")) :]
    assert len(end) < ONE_SCREEN
    for code in range(5):
        assert any(it.endswith(f"(12) failed: failed stop: exit code {code}") for it in end)
        assert any(it == f"  failed stop: exit code {code}" for it in lines), "those that are fine give way"
    assert sum(": resolved" in it for it in lines) == SHOWN_GROUPS - 5
    assert any(it.startswith("... and 4 more groups of hosts (gpu-[") for it in lines)


def test_more_reasons_than_a_screen_holds_are_counted():
    bad = [host(it, Verdict.FAILED, step(Status.FAILED, f"exit code {it}")) for it in range(80)]
    lines = said(*bad)
    assert len(lines) < 2 * SHOWN_GROUPS + SHOWN_REASONS + 6
    assert "  ... and 68 more reasons on 68 hosts" in lines


def test_a_short_recap_does_not_repeat_itself():
    assert said(host(1, Verdict.FAILED, step(Status.FAILED, "exit code 1"))) == [
        "", "gpu-01: failed", "  failed stop: exit code 1", "", "zombie-gpu: 1 failed in 1 s",
    ]  # fmt: skip


def test_plans_that_are_alike_are_asked_about_as_one_and_unlike_victims_are_all_named():
    def plan(number: int, *commands: str) -> HostPlan:
        victims = tuple(Victim(pid=number * 10 + at, user="root", command=it) for at, it in enumerate(commands))
        would = step(Status.WOULD_CHANGE, f"end {len(commands)} processes", victims=victims, risk=Risk.KILLS_PROCESSES)
        return HostPlan(host=f"gpu-{number:02}", results=(would,))

    stream = io.StringIO()
    show_plans([plan(1, "a", "b"), plan(2, "a", "b"), plan(3, "a", "c\033[2J"), replace(plan(4), results=())], stream)
    assert stream.getvalue().splitlines() == [
        "gpu-[01-02]:",
        "  would change stop: end 2 processes [kills-processes]",
        "    pid 10..20 (root) a",
        "    pid 11..21 (root) b",
        "gpu-03:",
        "  would change stop: end 2 processes [kills-processes]",
        "    pid 30 (root) a",
        "    pid 31 (root) c\\x1b[2J",
    ]


@pytest.mark.parametrize(("lines", "shown", "last"), [(61, 61, "+line 60"), (6000, 61, "... 5940 more lines")])
def test_a_long_diff_does_not_flood_the_console(lines, shown, last):
    """Mutants: wording.py ``_diff_lines`` that returns everything, or says a number that is one off."""
    diff = "".join(f"+line {number}\n" for number in range(lines))
    text = "\n".join(said(host(1, Verdict.PLANNED, step(Status.WOULD_CHANGE, "a change", diff=diff))))
    told = [it for it in text.splitlines() if "  | " in it]
    assert len(told) == shown
    assert last in told[-1]
