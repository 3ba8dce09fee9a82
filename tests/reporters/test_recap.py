"""A recap tells every host once, tells together what is alike, and hides nobody's reason."""

from __future__ import annotations

import io
from dataclasses import replace

from runbook.reporting.reporters.console import show_plans
from runbook.reporting.reporters.console.recap import SHOWN_GROUPS
from runbook.reporting.wording.evidence import evidence_lines
from runbook.reporting.wording.step_lines import SHOWN_NEW
from runbook.values.event import HostFinished
from runbook.values.plan import Finding, Presence, Risk
from runbook.values.playbook import Phase, Severity
from runbook.values.result import HostPlan, Sent, SentCommand, Status, StepResult, Verdict, Victim
from runbook.values.verbosity import Verbosity
from tests.reporters.made_up_results import finding, host, lines_of, said, step
from tests.support.tables import every_row


def test_an_expression_is_for_authors_and_on_no_console():
    why = "`when` cannot be evaluated: gpu_percent has no value (null) (in: `a.b | list > 3`)"
    blind = Finding(id="idle", severity=Severity.ERROR, status=Presence.UNKNOWN, say="", why=why)
    shown = said(host(1, Verdict.UNKNOWN, step(Status.BLOCKED, why), findings=(blind,)))
    assert "  unknown: idle: `when` cannot be evaluated: gpu_percent has no value (null)" in shown
    assert not any("(in:" in line for line in shown)


def test_an_interrupted_host_is_told_in_four_lines():
    """Mutants: each step with the same reason; a step that may have been done among those that were not."""
    why = "asked to stop; this probe was ended on the host: a script of runbook's own"
    probes = [step(Status.CANCELLED, why, id=it, phase=Phase.DIAGNOSE) for it in ("kernel", "gpus")]
    later = [step(Status.CANCELLED, why, id=it, sent=Sent.NOTHING) for it in ("stop", "reset")]
    next_one = "  next: run it again: hosts are probed again, and what was done is not repeated"
    assert said(host(1, Verdict.CANCELLED, *probes, *later, error=why))[1:6] == [
        "gpu-01: cancelled", f"  {why}", "  done: nothing was changed", "  not done: stop, reset", next_one,
    ]  # fmt: skip
    held = Finding(id="held", severity=Severity.ERROR, status=Presence.PRESENT, say="GPU 0 is held")
    shown = said(host(1, Verdict.CANCELLED, *probes, findings=(held,), error=why))
    assert shown[1:4] == ["gpu-01: cancelled", f"  {why}", "  error held: GPU 0 is held"]
    half = [step(Status.CHANGED, "", id="drain"), step(Status.UNKNOWN, "", id="stop"), later[1]]
    assert said(host(1, Verdict.CANCELLED, *half, error="interrupted"))[2:7] == [
        "  interrupted", "  done: drain", "  not known, perhaps done, or half: stop", "  not done: reset", next_one,
    ]  # fmt: skip


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
        "    pid 100, 101, 102 and 103 on gpu-01, 200, 201, 202, 203 and 204 on gpu-02, 300, 301 and 302 on gpu-03, and 141 "
        "more (root) train.py",
    ]


def test_hosts_of_whom_exactly_the_same_is_said_are_told_as_one_host_is():
    one, two = (host(it, Verdict.RESOLVED, step(Status.CHANGED, "stopped 3 processes")) for it in (1, 2))
    assert said(one, two)[1:3] == ["gpu-[01-02]: resolved", *said(one)[2:3]]


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


@every_row("what", APART)
def test_what_differs_in_more_than_amounts_is_told_apart(what):
    lines = said(*APART[what])
    assert any(it.startswith("gpu-01: ") for it in lines)
    assert any(it.startswith("gpu-02: ") for it in lines)


def test_unreachable_hosts_are_told_together_whatever_their_addresses_and_times():
    hosts = [host(it, Verdict.UNREACHABLE, error=f"10.0.0.{it}:22: no answer within {it}.5 s") for it in range(1, 9)]
    assert said(*hosts)[1:3] == ["gpu-[01-08]: unreachable", "  no answer within 1.5 s..8.5 s"]


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


def test_more_groups_than_are_shown_are_counted_and_the_worst_of_each_verdict_is_among_them():
    """Mutant: recap.py ``_shown`` that takes the first ones."""
    down = [host(it, Verdict.UNREACHABLE, error=f"strange {'x' * it}") for it in range(60)]
    bad = host(60, Verdict.FAILED, step(Status.FAILED, "exit code 7"))
    fine = host(61, Verdict.RESOLVED, step(Status.CHANGED, "done"))
    for verbosity in (Verbosity.NORMAL, Verbosity.VERBOSE):
        lines = said(*down, fine, bad, verbosity=verbosity)
        assert sum(it.startswith("gpu-") for it in lines) == SHOWN_GROUPS
        assert any("exit code 7" in it for it in lines)
        assert any(it.startswith("gpu-61: resolved") for it in lines)
        assert any(it.startswith("... and 22 more groups of hosts (gpu-[") for it in lines)
        assert max(number for number, it in enumerate(lines) if ": unreachable" in it) < next(
            number for number, it in enumerate(lines) if "exit code 7" in it
        ), "the worst first"


@every_row(
    "error", ["login as bob was refused (keys: 2)", "its host key has changed: x", "the name cannot be resolved", "?"]
)
def test_whoever_cannot_be_reached_has_a_next_action(error):
    _, action = lines_of(HostFinished(result=host(1, Verdict.UNREACHABLE, error=error)))
    assert action.startswith("  next: ")
    assert "HOST" not in action


def test_what_was_not_permitted_says_how_to_permit_it():
    """Mutant: host_digest.py ``next_line`` without --yes."""
    refused = step(Status.BLOCKED, "needs --yes: it deletes-data, and there is no terminal to ask on")
    found = finding("full", say="the disk is full", advise=("Look at the disk.",))
    _, action = lines_of(HostFinished(result=host(1, Verdict.UNRESOLVED, refused, findings=(found,))))
    assert action.startswith("  next: nothing was changed without a yes: run it again with --yes")


@every_row(
    ("error", "action", "words"),
    [
        (
            "not as planned: one process more",
            "pkill",
            "make a new plan: `runbook plan PLAYBOOK --hosts gpu-01 -o FILE`",
        ),
        (None, "pkill", "run it again and read the new plan"),
        (None, "restore_file", "read what differs; to restore the file all the same, copy it by hand"),
    ],
)
def test_a_host_that_has_drifted_has_a_next_action(error, action, words):
    """Mutant: host_digest.py ``next_line`` without ``_after_drift``."""
    drifted = replace(step(Status.DRIFTED, "it has changed"), action=action)
    _, line = lines_of(HostFinished(result=host(1, Verdict.DRIFTED, drifted, error=error)))
    assert line.startswith("  next: ")
    assert words in line


def test_a_host_that_a_limit_over_several_runs_holds_back_names_the_runs():
    """Mutant: host_digest.py ``next_line`` without ``LIMIT``."""
    why = "limits.attempts: 2 runs changed the host; a person has to look at it: `runbook history list --host gpu-01`"
    held = host(
        1, Verdict.UNRESOLVED, step(Status.BLOCKED, why), findings=(finding("hung", say="it hangs", advise=()),)
    )
    _, line = lines_of(HostFinished(result=held))
    assert line == (
        "  next: limits.attempts holds the host back; see what the earlier runs did: "
        "`runbook history list --host gpu-01`"
    )


def test_a_host_of_which_something_is_unknown_tells_what_is_found_before_what_could_not_be_told():
    blind = finding("busy", Presence.UNKNOWN, why="`when` cannot be evaluated: a.b has no value")
    found = finding("unmeasured", severity=Severity.WARNING, say="the load is not known", advise=("Look there.",))
    first, action = lines_of(HostFinished(result=host(1, Verdict.UNKNOWN, findings=(blind, found))))
    assert first.endswith(": unmeasured: the load is not known")
    assert action == "  next: Look there."


def test_a_plan_tells_its_cause_and_its_first_change_as_soon_as_the_host_is_done():
    would = step(Status.WOULD_CHANGE, "end 4 processes")
    ended = HostFinished(result=host(1, Verdict.PLANNED, would, findings=(finding("held", say="4 hold it"),)))
    assert lines_of(ended) == ["gpu-01: planned (0.1 s): held: 4 hold it", "  would change stop: end 4 processes"]


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
        "    pid 10 on gpu-01, 20 on gpu-02 (root) a",
        "    pid 11 on gpu-01, 21 on gpu-02 (root) b",
        "gpu-03:",
        "  would change stop: end 2 processes [kills-processes]",
        "    pid 30 (root) a",
        "    pid 31 (root) c\\x1b[2J",
    ]


@every_row(("lines", "shown", "last"), [(61, 61, "+line 60"), (6000, 61, "... 5940 more lines")])
def test_a_long_diff_does_not_flood_the_console(lines, shown, last):
    """Mutants: step_lines.py ``_diff_lines`` that returns everything, or says a number that is one off."""
    diff = "".join(f"+line {number}\n" for number in range(lines))
    text = "\n".join(said(host(1, Verdict.PLANNED, step(Status.WOULD_CHANGE, "a change", diff=diff))))
    told = [it for it in text.splitlines() if "  | " in it]
    assert len(told) == shown
    assert last in told[-1]


def test_of_a_new_file_the_console_shows_the_beginning_only():
    """Mutant: step_lines.py that shows as much of a new file as of a change to one."""
    diff = "--- /dev/null\n+++ /x/runner-monitor.sh\n" + "".join(f"+line {number}\n" for number in range(50))
    told = [it for it in said(host(1, Verdict.RESOLVED, step(Status.CHANGED, "new", diff=diff))) if "  | " in it]
    assert len(told) == SHOWN_NEW + 1
    assert told[-1].endswith("... 40 more lines: --report or --output json has all")


@every_row("head", ["", "@@ -0,0 +1,51 @@\n"])
def test_of_a_new_script_the_console_shows_its_path_and_how_long_it_is(head):
    """Mutants: step_lines.py that counts the header; that shows a script's text."""
    text = "+#!/bin/sh\n" + "".join(f"+line {number}\n" for number in range(50))
    diff = f"--- /dev/null\n+++ /x/runner-monitor.sh\n{head}{text}"
    shown = [it for it in said(host(1, Verdict.PLANNED, step(Status.WOULD_CHANGE, "new", diff=diff))) if "  | " in it]
    assert shown == ["    | +++ /x/runner-monitor.sh", "    | 51 new lines: --report or --output json has them"]


def lines_for(verdict: Verdict, *findings: Finding, steps: tuple[StepResult, ...] = ()) -> list[str]:
    return said(host(1, verdict, *steps, findings=findings))


def test_advice_of_a_warning_and_of_an_info_stands_right_below_it_also_where_the_host_is_fine():
    put_back = finding("works", severity=Severity.INFO, say="it works", advise=("Put it back.",))
    careful = finding("mode", severity=Severity.WARNING, say="odd mode", advise=("Change it.", "Ask."))
    assert lines_for(Verdict.RESOLVED, put_back, careful)[1:8] == [
        "gpu-01: resolved",
        "  info works: it works",
        "    next: Put it back.",
        "  warning mode: odd mode",
        "    next:",
        "      1. Change it.",
        "      2. Ask.",
    ]


def test_long_advice_of_an_info_is_counted_and_that_of_an_error_is_whole():
    many = tuple(f"Try {number}." for number in range(9))
    short_one = lines_for(Verdict.HEALTHY, finding(severity=Severity.INFO, advise=many))
    assert "      ... 6 more: see --output json" in short_one
    assert "Try 3." not in "\n".join(short_one)
    assert "      9. Try 8." in lines_for(Verdict.UNRESOLVED, finding(advise=many))


def test_the_cause_and_what_to_do_stand_above_evidence_and_above_what_only_informs():
    minor = finding("minor", severity=Severity.INFO, say="by the way")
    error = finding("main", say="it broke", advise=("Mend it.",), evidence={"log": "line"})
    assert lines_for(Verdict.UNRESOLVED, minor, error)[2:6] == [
        "  error main: it broke",
        "    next: Mend it.",
        "    log: line",
        "  info minor: by the way",
    ]


def test_the_same_advice_of_two_findings_is_given_once():
    two = (finding("a", advise=("Mend it.",)), finding("b", advise=("Mend it.", "Or that.")))
    assert sum("Mend it." in it for it in lines_for(Verdict.UNRESOLVED, *two)) == 1
    assert "    next: Or that." in lines_for(Verdict.UNRESOLVED, *two)


def test_what_a_plan_will_do_needs_no_advice_and_what_is_not_known_gets_none():
    assert "Mend it." not in "\n".join(lines_for(Verdict.PLANNED, finding(advise=("Mend it.",))))
    unknown = finding(status=Presence.UNKNOWN, why="no answer", advise=("Mend it.",))
    assert "Mend it." not in "\n".join(lines_for(Verdict.UNKNOWN, unknown))


CAUSES = {
    "an unknown finding whose look was ignored": (
        host(
            1,
            Verdict.UNKNOWN,
            step(Status.FAILED, "no answer", phase=Phase.DIAGNOSE, ignored=True),
            findings=(finding("held", Presence.UNKNOWN, why="gpus: no answer"),),
        ),
        "unknown: held is unknown: gpus: no answer",
    ),
    "a step that only waits for what is not known": (
        host(
            1,
            Verdict.UNKNOWN,
            step(Status.BLOCKED, "`when` is unknown: no file matches"),
            findings=(finding("loop", Presence.UNKNOWN, why="no file matches"),),
        ),
        "unknown: loop is unknown: no file matches",
    ),
    "a debt": (host(1, Verdict.UNKNOWN, step(Status.OWED, "put back later")), "unknown: owed stop: put back later"),
    "nothing at all": (host(1, Verdict.UNKNOWN), "unknown: no step and no finding says why: see --output json"),
}


@every_row("what", CAUSES)
def test_the_end_of_every_host_that_is_not_fine_has_a_reason(what):
    result, words = CAUSES[what]
    (line,) = lines_of(HostFinished(result=result))
    assert line == f"gpu-01: unknown (0.1 s): {words.removeprefix('unknown: ')}"


def test_while_the_run_is_on_the_end_of_a_host_names_its_cause_and_the_first_thing_to_do():
    error = finding("held", say="4 processes hold it", advise=("Stop the container.", "Ask."))
    ended = HostFinished(result=host(1, Verdict.UNRESOLVED, findings=(error,)))
    assert lines_of(ended) == [
        "gpu-01: unresolved (0.1 s): held: 4 processes hold it",
        "  next: Stop the container.",
    ]
    assert lines_of(HostFinished(result=host(1, Verdict.HEALTHY))) == ["gpu-01: healthy (0.1 s)"]


def test_a_script_of_several_lines_is_told_by_the_name_of_its_step():
    script = "run old= ; for it in a b; do ;    ..."
    named = step(Status.CHANGED, f"{script} (not checked)", planned=script, name="Put it back")
    assert "  changed stop: Put it back (not checked)" in said(host(1, Verdict.RESOLVED, named))
    one = 'run if [ -d /run/x ]; then y "$1" || exit; else kill ...'
    assert "  changed stop: Reload it" in said(
        host(1, Verdict.RESOLVED, step(Status.CHANGED, one, planned=one, name="Reload it"))
    )
    plain = step(Status.CHANGED, "run systemctl restart x", planned="run systemctl restart x", name="Restart it")
    assert "  changed stop: run systemctl restart x" in said(host(1, Verdict.RESOLVED, plain))


DIED = {
    "id": "15afcfa6",
    "name": "run-memory",
    "image": "lab/areal:1",
    "status": "exited",
    "dead": True,
    "pid": 0,
    "exit_code": 137,
    "meaning": "137: SIGKILL for lack of memory",
    "oom_killed": True,
    "signals": [],
    "error": "",
    "started_at": "2026-11-22T11:21:43.38Z",
    "finished_at": "2026-11-22T11:21:43.6Z",
    "ran": 0.235,
    "memory": 20971520,
    "cpus": 0.0,
    "restart_count": 0,
    "restart_policy": "no",
}
EVIDENCE = {
    "a container": (
        DIED,
        "run-memory (lab/areal:1): exited; exit code 137: SIGKILL for lack of memory; OOMKilled yes; started "
        "2026-11-22T11:21:43Z, ended 2026-11-22T11:21:43Z; ran 0.2 s; memory limit 20.0 MiB, CPU limit none; restarts 0 (policy no)",
    ),
    "a container that was asked to end": (
        {**DIED, "oom_killed": False, "signals": ["9"]},
        "OOMKilled no; Docker was asked to send it signal 9;",
    ),
    "a container that lives": ({**DIED, "status": "running", "finished_at": ""}, "(lab/areal:1): running; started"),
    "a kill by the kernel": ({"pid": 689, "name": "tail", "at": "T", "cgroup": "/x"}, "pid 689 (tail) at T"),
    "a holder": ({"pid": 49, "name": "x", "devices": ["/dev/nvidia0"]}, "pid 49 (x) holds /dev/nvidia0"),
    "a holder of a known GPU": (
        {
            "pid": 49,
            "command": "python3 train.py",
            "user": "ada",
            "gpus": ["GPU 3 (81234 MiB)"],
            "devices": ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia5", "/dev/shm/x"],
        },
        "pid 49 python3 train.py (ada) holds GPU 3 (81234 MiB), /dev/shm/x",
    ),
    "a disk": ({"path": "/", "percent": 93.0, "avail": 5869568, "mount": "/"}, "/ 93.0 % full, 5.6 MiB free"),
    "memory": ({"total": 25276510208, "available": 1, "percent": 6.6}, "6.6 % of 23.5 GiB in use"),
    "a line of a log": ({"signature": "s", "file": "/a.log", "line": 7, "text": "it broke"}, "/a.log:7: it broke"),
    "the end of a log": ({"file": "/a.log", "text": "waits", "age": 61.0}, "/a.log (61 s ago): waits"),
    "a full disk of Docker's": (
        {"path": "/d", "size": 9, "used_percent": 34.0, "available": 1073741823, "fullest": 34.0},
        "/d 34.0 % full, 1.0 GiB free",
    ),
    "what Docker keeps": (
        {"kind": "image", "id": "sha256:5f08b83ddcf65ec5", "name": "<none>", "note": "", "bytes": 4194304, "logs": 0},
        "image <none> (5f08b83ddcf6), 4.0 MiB",
    ),
    "a slow disk": (
        {"write": 19999542, "read": None, "slow": True, "how": "direct", "item": "/out"},
        "/out: write 20.0 MB/s",
    ),
    "what lies in another thing": (
        {"nvidia": {"path": "p", "args": [], "on": True}, "none": None},
        "nvidia (path p, args none, on yes), none none",
    ),
    "a message of the kernel": ({"at": "T", "seconds": 1.0, "text": "I/O error"}, "T: I/O error"),
}


HOLDERS = [
    {"pid": number, "command": f"python3 train.py --rank {number}", "user": "ada", "gpus": [f"GPU {number}"]}
    for number in range(3)
]


def test_evidence_of_many_words_has_a_line_for_each_thing_and_describes_a_process_once():
    """Mutants: evidence.py without ``shown``; one line for all; the index in place of the pid."""
    shown: set[str] = set()
    first = evidence_lines("holders", HOLDERS, shown)
    assert first[:2] == ["  holders:", "    pid 0 python3 train.py --rank 0 (ada) holds GPU 0"]
    assert len(first) == 4
    again = [*HOLDERS, {**HOLDERS[0], "pid": 7}]
    assert evidence_lines("matches", again, shown) == [
        "  matches: pid 0; pid 1; pid 2; pid 7 python3 train.py --rank 0 (ada) holds GPU 0"
    ]
    assert evidence_lines("other", [{**HOLDERS[0], "gpus": []}], shown) == [
        "  other: pid 0 python3 train.py --rank 0 (ada)"
    ]
    assert evidence_lines("many", list(range(99)))[0].endswith("7; ... 91 more: see --output json")


def test_why_a_probe_failed_is_said_once_and_before_what_rests_on_it():
    """Mutants: host_lines.py whose reasons are said in full each time, or whose failed probes come last."""
    why = "nvidia-smi: the driver does not answer (exit code 9)"
    blind = [
        finding("busy", Presence.UNKNOWN, why=f"gpus: {why}", rests_on=("gpus",)),
        finding("hot", Presence.UNKNOWN, why=f"gpus: {why}", rests_on=("gpus",)),
        finding("old", Presence.UNKNOWN, why="no log"),
    ]
    lines = said(
        host(
            1,
            Verdict.UNKNOWN,
            step(Status.OK, "", id="log", phase=Phase.DIAGNOSE),
            step(Status.FAILED, why, id="gpus", phase=Phase.DIAGNOSE),
            step(Status.FAILED, "no file", id="short", phase=Phase.DIAGNOSE),
            step(Status.BLOCKED, f"`when` is unknown: gpus: {why}", id="reset", rests_on=("gpus",)),
            step(Status.BLOCKED, why, id="stop"),
            findings=tuple(blind),
        )
    )
    assert lines[1:-1] == [
        "gpu-01: unknown",
        f"  failed gpus: {why}",
        "  failed short: no file",
        "  unknown: busy, hot: gpus failed",
        "  unknown: old: no log",
        "  blocked reset: gpus failed",
        "  blocked stop: gpus failed",
        "",
    ]


@every_row("what", EVIDENCE)
def test_evidence_is_told_by_what_matters_of_it(what):
    value, words = EVIDENCE[what]
    (line,) = evidence_lines("seen", [value])
    assert words in line
    assert evidence_lines("seen", value) == [line]


def test_evidence_of_a_look_that_was_not_called_for_is_left_out():
    assert evidence_lines("usage", "unknown: usage: when: containers.running") == []
    assert evidence_lines("there_now", "") == []
    assert evidence_lines("usage", "unknown: usage: docker did not answer") != []
