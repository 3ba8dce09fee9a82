"""The digest of a host: its cause, what else there is, what is unknown or held back, and what comes next."""

from __future__ import annotations

import io
import re
from dataclasses import replace

from ClusterShell.NodeSet import NodeSet
from rich.console import Console

from runbook.commands.monitor import HostView, view
from runbook.reporting.reporters import make
from runbook.reporting.wording.host_digest import HostDigest, host_digest
from runbook.values.event import HostFinished, RunFinished, RunStarted
from runbook.values.plan import Presence, Risk
from runbook.values.playbook import Phase, Playbook, Severity
from runbook.values.result import (
    Fault,
    HostResult,
    Mode,
    RunResult,
    Sent,
    SentCommand,
    Status,
    StepResult,
    Verdict,
    Victim,
)
from runbook.values.verbosity import Verbosity
from tests.reporters.made_up_results import finding, host, lines_of, said, step
from tests.support.sample_runs import sample_host, sample_run
from tests.support.tables import every_row

HELD = finding("held", say="4 hold it", advise=("Stop it.", "Ask."))
HOT = finding("hot", say="it is hot", severity=Severity.CRITICAL)
ODD = finding("mode", say="odd mode", severity=Severity.WARNING, advise=("Change it.",))
NEWS = finding("summary", say="2 GPUs", severity=Severity.INFO)
CURED = finding("held", Presence.GONE, say="4 hold it")
CLEARED = finding("log", Presence.GONE, say="a line", severity=Severity.INFO)
BLIND = finding("busy", Presence.UNKNOWN, why="no such file")
BLIND_TOO = finding("slow", Presence.UNKNOWN, why="gpus: no answer", rests_on=("gpus",))
SILENT = step(Status.FAILED, "no answer", id="gpus", phase=Phase.DIAGNOSE)
LATER = step(Status.BLOCKED, "gpus: no answer", id="reset", rests_on=("gpus",))
ENDED = step(Status.CHANGED, "ended 4")
BROKE = step(Status.FAILED, "exit code 3", id="reset")
WOULD = step(Status.WOULD_CHANGE, "end 4", risk=Risk.KILLS_PROCESSES)
REFUSED = step(Status.BLOCKED, "needs --yes: it kills")
UNMEASURED = step(Status.BLOCKED, "it writes files of its own", id="disk", phase=Phase.DIAGNOSE, fault=Fault.SCRATCH)
CUT_OFF = step(Status.CANCELLED, "interrupted", sent=Sent.PART)
NOT_SENT = step(Status.CANCELLED, "interrupted", id="reset", sent=Sent.NOTHING)


def outline(digest: HostDigest) -> dict[str, object]:
    """The parts of *digest* that are not empty, in words."""
    parts = {
        "cause": digest.cause.text if digest.cause else "",
        "from": [source.id for source in digest.cause.sources] if digest.cause else [],
        "found": [line.text for line in digest.found],
        "also": [line.text for line in digest.also],
        "unknown": [line.text for line in digest.unknown],
        "changes": [change.id for change in digest.changes],
        "held back": [line.text for line in digest.held_back],
        "next": [*digest.next],
    }
    return {name: value for name, value in parts.items() if value}


DIGESTS = {
    "healthy": (host(1, Verdict.HEALTHY, findings=(NEWS,)), {"also": ["info summary: 2 GPUs"]}),
    "healthy, as a finding went by itself: nothing was cured": (
        host(1, Verdict.HEALTHY, findings=(CURED,)),
        {"found": ["held is gone (was: 4 hold it)"]},
    ),
    "resolved: what was cured, and no information or warning beside it": (
        host(1, Verdict.RESOLVED, ENDED, findings=(NEWS, ODD, CLEARED, CURED)),
        {
            "cause": "held is gone (was: 4 hold it)",
            "from": ["held"],
            "found": ["held is gone (was: 4 hold it); log is gone (was: a line)"],
            "also": ["warning mode: odd mode"],
            "changes": ["stop"],
            "next": ["Change it."],
        },
    ),
    "resolved without a finding": (host(1, Verdict.RESOLVED, ENDED, findings=(NEWS,)), {"changes": ["stop"]}),
    "unresolved": (
        host(1, Verdict.UNRESOLVED, REFUSED, findings=(ODD, HELD, HOT)),
        {
            "cause": "held: 4 hold it; hot: it is hot",
            "from": ["held", "hot"],
            "found": ["hot: it is hot", "also held: 4 hold it"],
            "also": ["warning mode: odd mode"],
            "held back": ["not done: stop: needs --yes: it kills"],
            "next": ["nothing was changed without a yes: run it again with --yes, or on a terminal"],
        },
    ),
    "planned": (
        host(1, Verdict.PLANNED, WOULD, findings=(HELD,)),
        {"cause": "held: 4 hold it", "from": ["held"], "found": ["held: 4 hold it"], "changes": ["stop"]},
    ),
    "planned without a finding": (host(1, Verdict.PLANNED, WOULD), {"changes": ["stop"]}),
    "failed: the finding stands first where there is room, the step where there is one line": (
        host(1, Verdict.FAILED, ENDED, BROKE, findings=(HELD,)),
        {
            "cause": "failed reset: exit code 3",
            "from": ["reset"],
            "found": ["held: 4 hold it"],
            "changes": ["stop", "reset"],
            "next": ["Stop it.", "Ask."],
        },
    ),
    "unknown: the step that failed before one that nobody knows of": (
        host(1, Verdict.UNKNOWN, step(Status.OWED, "later"), step(Status.UNKNOWN, "cut off", id="reset"), BROKE),
        {"cause": "failed reset: exit code 3", "from": ["reset"], "changes": ["stop", "reset", "reset"]},
    ),
    "failed without a finding: the step that failed, once": (
        host(1, Verdict.FAILED, ENDED, BROKE),
        {
            "cause": "failed reset: exit code 3",
            "from": ["reset"],
            "found": ["failed reset: exit code 3"],
            "changes": ["stop"],
        },
    ),
    "unknown": (
        host(1, Verdict.UNKNOWN, SILENT, LATER, findings=(BLIND, BLIND_TOO)),
        {
            "cause": "failed gpus: no answer",
            "from": ["gpus"],
            "found": ["failed gpus: no answer"],
            "unknown": [
                "not known, as gpus did not answer: slow",
                "unknown: busy: no such file",
                "not done, as that is not known: reset",
            ],
        },
    ),
    "unknown, with a warning that says what to do": (
        host(1, Verdict.UNKNOWN, findings=(BLIND, ODD)),
        {
            "cause": "mode: odd mode",
            "from": ["mode"],
            "found": ["mode: odd mode"],
            "unknown": ["unknown: busy: no such file"],
            "next": ["Change it."],
        },
    ),
    "unknown, as a dry run measures nothing": (
        host(1, Verdict.UNKNOWN, UNMEASURED, findings=(replace(BLIND, rests_on=("disk",)),)),
        {
            "cause": "busy is unknown: no such file",
            "from": ["busy"],
            "found": ["not measured in a dry run without --scratch: busy"],
            "next": ["measure it, too: the same with --scratch"],
        },
    ),
    "unreachable": (
        host(1, Verdict.UNREACHABLE, error="gpu-01:22: connection refused"),
        {
            "cause": "gpu-01:22: connection refused",
            "found": ["gpu-01:22: connection refused"],
            "next": ["nothing listens on this port: check that host and sshd are up, and the address and port"],
        },
    ),
    "cancelled, after a change of which nothing was sent had failed": (
        host(1, Verdict.CANCELLED, replace(BROKE, sent=Sent.NOTHING)),
        {
            "cause": "failed reset: exit code 3",
            "from": ["reset"],
            "held back": ["done: nothing was changed", "failed: reset"],
            "next": ["run it again: hosts are probed again, and what was done is not repeated"],
        },
    ),
    "cancelled": (
        host(1, Verdict.CANCELLED, ENDED, CUT_OFF, NOT_SENT, findings=(HELD,), error="interrupted"),
        {
            "cause": "interrupted",
            "found": ["interrupted"],
            "also": ["error held: 4 hold it"],
            "held back": ["done: stop", "not known, perhaps done, or half: stop", "not done: reset"],
            "next": ["run it again: hosts are probed again, and what was done is not repeated"],
        },
    ),
}


@every_row("what", DIGESTS)
def test_the_digest_of_a_host_says_each_thing_once_and_where_it_comes_from(what):
    """Mutants: ``_cause`` that takes a resolved host's warning, information or gone information; without its order;
    ``_found`` without its order, ``_held_back`` with what blindness holds back, ``host_digest`` that says a step twice.
    """
    result, parts = DIGESTS[what]
    assert outline(host_digest(result)) == parts


RESOLVED = host(1, Verdict.RESOLVED, ENDED, findings=(NEWS, ODD, CURED))


def written(name: str, *hosts: HostResult) -> str:
    stream = io.StringIO()
    make(name, stream).on(RunFinished(result=sample_run(*hosts, exit_code=0, left_out=(), limits=None, inputs={})))
    return stream.getvalue()


def test_every_output_says_of_a_resolved_host_what_was_cured():
    """Mutants: ``_cause`` without what is gone; ``causes``, ``_ended``, ``_findings_with_advice``, markdown.py
    ``_causes`` or monitor.py ``_of_host`` without it.
    """
    cured = "held is gone (was: 4 hold it)"
    assert said(RESOLVED, verbosity=Verbosity.NORMAL)[:2] == [f"gpu-01: resolved: {cured}", "  warning mode: odd mode"]
    assert said(RESOLVED)[1:4] == ["gpu-01: resolved", "  gone: held (was: 4 hold it)", "  info summary: 2 GPUs"]
    assert lines_of(HostFinished(result=RESOLVED))[0] == f"gpu-01: resolved (0.1 s): {cured}"
    lines = written("markdown", RESOLVED).splitlines()
    at = lines.index("## What was cured")
    assert lines[at + 2] == f"- `gpu-01` **resolved**: `{cured}`"
    assert "## What is wrong, the worst first" not in lines
    page = written("html", RESOLVED)
    assert f'"causes":[{{"v":"resolved","h":"gpu-01","n":1,"l":["resolved: {cured}"' in page
    assert '"c":1' in page
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as captured:
        console.print(view(Playbook(name="monitor"), [HostView(host="gpu-01", result=RESOLVED)], console))
    assert f"gpu-01: resolved: {cured}" in captured.get()


COUNT = 120


def third(number: int) -> HostResult:
    """One of many hosts with one of three causes, each with a plan, numbers and names of its own."""
    gpu, name = f"GPU {number % 8}", f"gpu-{number:03}"
    victim = Victim(pid=1000 + number, user=f"u{number}", command=f"train{number}.py")
    plan = replace(WOULD, victims=(victim,))
    found = replace(HELD, say=f"{2 + number % 5} processes hold {gpu}")
    sick = finding("xid", say=f"XID {79 if number % 2 else 48} on {gpu}", advise=("Drain it.",))
    down = f"10.0.0.{number}:22: no answer within {number % 4} s"
    kinds = (
        host(number, Verdict.PLANNED, plan, findings=(found,)),
        host(number, Verdict.UNRESOLVED, replace(BROKE, why=f"u{number} holds it"), findings=(sick,)),
        host(number, Verdict.UNREACHABLE, error=down),
    )
    return replace(kinds[number % 3], host=name)


def executed(number: int) -> HostResult:
    """A host on which a command of ``runbook exec`` succeeded or failed in one of two ways, with output of its own."""
    sent = SentCommand(line="w", effect="read", exit_code=number % 3, stdout=f"load {number} x{number}y\n")
    status, why = (Status.FAILED, f"exit code {number % 3}") if number % 3 else (Status.OK, "")
    ran = StepResult(
        id="exec", phase=Phase.REMEDIATE, action="command", status=status, why=why, commands=(sent,), verified=True
    )
    return HostResult(host=f"gpu-{number:03}", verdict=Verdict.FAILED if why else Verdict.HEALTHY, steps=(ran,))


def piped(hosts: list[HostResult], playbook: str, verbosity: Verbosity = Verbosity.NORMAL) -> list[str]:
    """The lines of the recap of a run on *hosts* in a pipe."""
    stream = io.StringIO()
    reporter = make("console", stream, verbosity)
    names = tuple(each.host for each in hosts)
    reporter.on(RunStarted(run="r", playbook=playbook, mode=Mode.RUN, hosts=names))
    for each in hosts:
        reporter.on(HostFinished(result=each))
    result = RunResult(
        run="r", playbook=playbook, mode=Mode.RUN, started_at="", seconds=1, exit_code=1, hosts=tuple(hosts)
    )
    reporter.on(RunFinished(result=result))
    lines = stream.getvalue().splitlines()
    progress = [number for number, line in enumerate(lines) if " done: " in line]
    return lines[max(progress) + 1 :]


def test_120_hosts_with_three_causes_have_a_line_for_each_cause_in_a_pipe():
    """Mutants: recap.py ``SCREEN`` of 400; ``_cause_key`` by texts, or without its verdict; ``_reasons`` that shows any
    action, or drops hosts.
    """
    lines = piped([third(number) for number in range(COUNT)], "feed")
    reasons = [line.split(": ", 1) for line in lines if line.startswith("gpu-")]
    assert [words for _, words in reasons] == [
        "unreachable: no answer within 0 s..3 s",
        "unresolved: xid: XID 79 on GPU 1; xid: XID 48 on GPU 4; xid: XID 79 on GPU 7; 5 more (-v)",
        "planned: held: 2..6 processes hold GPU 0; held: 2..6 processes hold GPU 3; held: 2..6 processes hold GPU 6; "
        "5 more (-v)",
    ]
    assert [{int(name[4:]) % 3 for name in NodeSet(hosts)} for hosts, _ in reasons] == [{2}, {1}, {0}]
    assert sum(len(NodeSet(hosts)) for hosts, _ in reasons) == COUNT
    assert [line.strip() for line in lines if line.startswith("  ")] == [
        "next: check that the host is powered on, and the way to it (VPN, firewall)",
        "next: Drain it.",
        "would change stop: end 4",
    ]
    assert "each host, and what was done or would be done there: -v" in lines


def test_in_full_every_cause_and_number_is_there_and_few_hosts_are_never_folded():
    """Mutants: recap.py that folds where *verbosity* is VERBOSE, or few hosts with many lines."""
    many = [third(number) for number in range(COUNT)]
    text = "\n".join(piped(many, "feed", Verbosity.VERBOSE))
    assert "u1 holds it" in text
    assert "(-v)" not in text
    few = said(*map(third, range(39)), verbosity=Verbosity.NORMAL)
    assert len(few) > 40
    assert {f"train{number}.py" for number in range(0, 39, 3)} <= set(re.findall(r"train\d+\.py", "\n".join(few)))


def test_the_outputs_of_120_hosts_are_all_there_and_a_line_for_each_cause_stands_below_them():
    """Mutants: recap.py that shows reasons in place of outputs, or of hosts that are well."""
    lines = piped([executed(number) for number in range(COUNT)], "exec")
    assert sum("| load" in line for line in lines) == COUNT
    last = max(number for number, line in enumerate(lines) if "| load" in line)
    below = [line for line in lines[last + 1 :] if line.startswith("gpu-")]
    assert [line.split(": ", 1)[1] for line in below] == ["failed: exec: exit code 1", "failed: exec: exit code 2"]


def test_a_clean_up_that_is_owed_is_named_with_its_hosts_in_a_long_recap():
    """Mutant: ``_reasons`` without ``owing``."""
    owing = replace(sample_host(7), host="gpu-900")
    lines = piped([*(third(number) for number in range(COUNT)), owing], "feed")
    assert "  clean-ups are owed to gpu-900 (-v)" in lines


def test_a_line_for_a_cause_is_of_one_verdict_and_names_an_action_only_where_all_have_it_in_common():
    """Mutants: ``_cause_key`` without its verdict; ``_reasons`` that shows any action; ``causes`` without its order."""
    sick = replace(third(1), verdict=Verdict.PLANNED, host="gpu-900")
    other = replace(third(1), findings=(finding("xid", say="XID 13", advise=("Ask.",)),), host="gpu-901")
    lines = piped([*(third(number) for number in range(COUNT)), sick, other], "feed")
    assert any(line.startswith("gpu-900: planned: xid: XID 79 on GPU 1") for line in lines)
    assert not {"  next: Drain it.", "  next: Ask."} & set(lines)
    page = written("markdown", third(0), third(1), third(2))
    assert page.index("**unreachable**") < page.index("**unresolved**") < page.index("**planned**")


def test_a_recap_of_many_hosts_that_fits_on_a_screen_is_whole():
    """Mutant: recap.py that counts hosts only."""
    alike = [replace(RESOLVED, host=f"gpu-{number:03}") for number in range(COUNT)]
    lines = piped(alike, "feed")
    assert "  changed stop: ended 4" in lines
    assert not any("-v" in line for line in lines)


def test_statuses_and_verdicts_belong_to_the_groups_that_outputs_tell_apart():
    """Mutants: result.py with a status or a verdict less in one of its groups."""
    groups = [
        {each.value for each in Status if each.is_broken},
        {each.value for each in Status if each.is_held_back},
        {each.value for each in Status if each.is_idle},
        {each.value for each in Verdict if each.is_fine},
        {each.value for each in Verdict if each.needs_advice},
    ]
    assert groups == [
        {"failed", "timeout", "unknown", "drifted", "owed"},
        {"blocked", "cancelled"},
        {"ok", "skipped"},
        {"planned", "resolved", "healthy"},
        {"unresolved", "failed", "unknown"},
    ]
