"""What is more than a saved plan showed, and what is less, in words."""

from __future__ import annotations

from dataclasses import replace

from runbook.execution.executor.permitted import difference
from runbook.values.plan import Finding, Presence, Risk, Target
from runbook.values.playbook import Severity
from runbook.values.shown import LaterChange, ShownHost, ShownStep
from tests.support.tables import every_row


def process(pid: int, words: str = "train.py") -> Target:
    return Target(kind="process", key=f"{pid}:77", say=f"pid {pid}", pid=pid, user="alice", command=words)


def file(digest: str, path: str = "/etc/x") -> Target:
    return Target(kind="file", key=f"{path} {digest}", say=path)


def image(age: str, size: str) -> Target:
    return Target(kind="image", key="sha256:1", say=f"image sha256:1 app ({age}, {size})")


def change(*targets: Target, **keys) -> ShownStep:
    plain = {"summary": "end them", "risk": Risk.KILLS_PROCESSES, "commands": str(targets), "lines": str(targets)}
    return ShownStep(**{"id": "stop", "decision": "change", "targets": targets, **plain, **keys})


def dormant(*targets: Target, **keys) -> ShownStep:
    plain = {"summary": "held is not there", "condition": "only if held is present after it"}
    return ShownStep(**{"id": "stop", "decision": "skip", "targets": targets, **plain, **keys})


LATER = LaterChange(summary="restart it", risk=Risk.RESTARTS_SERVICES, commands="restart")
IDLE = ShownStep(id="stop", decision="no_change", summary="nothing is there")
COMMAND = {"targets": (), "summary": "restart it", "risk": Risk.RESTARTS_SERVICES, "commands": "restart", "lines": ""}


def more(saved: ShownStep, fresh: ShownStep) -> list[str]:
    host = difference(ShownHost(host="h", steps=(saved,)), ShownHost(host="h", steps=(fresh,)), (), ())
    return [it.words for it in host.more]


def less(saved: ShownStep, *fresh: ShownStep) -> list[str]:
    return list(difference(ShownHost(host="h", steps=(saved,)), ShownHost(host="h", steps=fresh), (), ()).less)


@every_row(
    ("saved", "fresh"),
    [
        (change(process(1)), change(process(1))),
        (change(process(1), process(2)), change(process(2))),
        (change(process(1)), IDLE),
        (IDLE, IDLE),
        (dormant(process(1), process(2)), change(process(1))),
        (dormant(process(1), process(2)), dormant(process(2))),
        (dormant(then=LATER), change(**COMMAND)),
        (change(**COMMAND), dormant(then=LATER)),
        (change(process(1), risk=Risk.DELETES_DATA), change(process(1))),
        (change(process(1), args={"signal": "x"}), change(process(1), args={"signal": "y"})),
        (change(process(1), commands="a"), change(process(1), commands="b")),
        (change(image("3 days", "1 GB")), change(image("4 days", "2 GB"), lines=str((image("3 days", "1 GB"),)))),
        (dormant(then=LATER), dormant(then=None, condition=None)),
        (dormant(process(1), then=LATER), dormant(process(1), then=None, condition="only if another is present")),
        (dormant(process(1), condition="only if 3 are"), dormant(process(1), condition="only if 4 are")),
    ],
)
def test_what_is_no_more_than_was_shown_is_no_drift(saved, fresh):
    assert more(saved, fresh) == []


@every_row(
    ("saved", "fresh"),
    [
        (change(process(1), condition="only if the moon is full"), change(process(1))),
        (dormant(process(1), then=LATER, condition="never"), dormant(process(1), then=LATER)),
        (dormant(then=LATER, condition="never"), dormant(then=LATER)),
        (dormant(process(1), then=None), dormant(process(1), then=LATER)),
        (dormant(process(1), then=replace(LATER, summary="look")), dormant(process(1), then=LATER)),
        (dormant(process(1), then=replace(LATER, commands="other")), dormant(process(1), then=LATER)),
    ],
)
def test_a_condition_or_a_later_change_that_was_made_up_is_more_than_was_shown(saved, fresh):
    """Mutants: ``compare`` without ``_says_the_same``, with targets, or without; ``_conditional`` without each part."""
    assert more(saved, fresh) != []


@every_row(
    ("saved", "fresh", "words"),
    [
        (
            change(process(1)),
            change(process(1), process(4711)),
            "one process more would be ended (stop): 4711 train.py (alice)",
        ),
        (IDLE, change(process(1)), "one process more would be ended (stop): 1 train.py (alice)"),
        (dormant(process(1)), dormant(process(2)), "one process more would be ended (stop): 2 train.py (alice)"),
        (
            IDLE,
            change(*map(process, range(1, 13))),
            "12 processes more would be ended (stop): "
            + ", ".join(f"{it} train.py (alice)" for it in range(1, 11))
            + ", and 2 more",
        ),
        (
            change(process(1)),
            change(process(1), risk=Risk.REBOOTS),
            "stop would now end them (risk: reboots); the plan showed the risk kills-processes",
        ),
        (
            dormant(process(1), then=LATER),
            change(process(1), risk=Risk.REBOOTS),
            "stop would now end them (risk: reboots); the plan showed the risk restarts-services",
        ),
        (change(file("a")), change(file("b")), "/etc/x has changed since the plan was made (stop would end them)"),
        (change(file("a")), change(file("b", "/etc/y")), "one file more would be touched (stop): /etc/y"),
        (
            change(file("a"), diff="-1\n+2\n"),
            change(file("a"), diff="-1\n+3\n"),
            "stop would now do something else to what the plan showed: end them",
        ),
        (
            change(process(1), args={"signal": "x"}, commands="a"),
            change(process(1), args={"signal": "y"}, commands="b"),
            "stop would now do something else to what the plan showed: end them",
        ),
        (
            change(process(1), lines="kill -0 1"),
            change(process(1), lines="kill -9 1"),
            "stop would now do something else to what the plan showed: end them",
        ),
        (
            change(process(1, "old.py")),
            change(process(1, "new.py"), lines=str((process(1, "old.py"),))),
            "process 1 new.py (alice) is not what the plan showed: 1 old.py (alice) (stop would end them)",
        ),
        (
            dormant(replace(file("a"), say="/tmp/x")),
            change(file("a")),
            "file /etc/x is not what the plan showed: /tmp/x (stop would end them)",
        ),
        (
            change(replace(image("a", "b"), say="image mine (a, b)")),
            change(image("a", "b")),
            "image image sha256:1 app (a, b) is not what the plan showed: image mine (a, b) (stop would end them)",
        ),
        (
            change(file("a", "/d (1 B)")),
            change(replace(file("a", "/d (1 B)"), say="/d (9 B)")),
            "file /d (9 B) is not what the plan showed: /d (1 B) (stop would end them)",
        ),
        (IDLE, change(**COMMAND), "stop would now restart it; the plan showed: nothing is there"),
        (
            change(**COMMAND),
            change(**{**COMMAND, "commands": "another"}),
            "stop would now restart it; the plan showed: restart it",
        ),
        (
            change(**COMMAND),
            change(**{**COMMAND, "lines": "another"}),
            "stop would now restart it; the plan showed: restart it",
        ),
        (IDLE, dormant(then=LATER), "stop might now restart it; the plan did not show that"),
    ],
)
def test_what_is_more_than_was_shown_is_named(saved, fresh, words):
    """Mutants: permitted.py: each ``yield`` of ``_unplanned`` and ``_unplanned_targets`` left out."""
    assert more(saved, fresh) == [words]


LIES = [
    (change(**{**COMMAND, "summary": "read something"}), change(**COMMAND)),
    (change(file("a"), summary="read something"), change(file("a"))),
    (dormant(then=replace(LATER, summary="read something")), change(**COMMAND)),
    (change(file("a"), diff="-1\n+2\n"), change(file("a"))),
    (change(file("a"), file("z", "/z"), diff="-1\n+2\n"), change(file("a"), diff="-1\n+3\n", lines="")),
]


@every_row(("saved", "fresh"), LIES)
def test_words_and_differences_that_a_plan_made_up_are_drift(saved, fresh):
    """Anybody who approves it goes by them.  Mutants: ``_compared_words`` that gives nothing; ``_becomes_something_else`` without its diff."""
    assert len(more(saved, fresh)) == 1


@every_row(
    ("then", "now"),
    [
        ("remove 3 matches, 1.5 GiB (2 newer ones kept)", "remove 3 matches, 900 MiB"),
        ("set x to 5 (was 3)", "set x to 5 (was 4)"),
    ],
)
def test_numbers_and_asides_that_change_by_themselves_are_no_drift(then, now):
    """Mutants: ``_compared_words`` that compares numbers, sizes, or what stands in parentheses."""
    assert more(change(file("a"), summary=then), change(file("a"), summary=now)) == []


@every_row("target", [process(1), image("3 days", "1 GB")])
def test_what_is_said_of_things_that_are_listed_one_by_one_may_change(target):
    """Mutant: ``_becomes_something_else`` that compares the words for processes, or for what Docker keeps."""
    assert more(change(target, summary="end it; left alone: pid 5"), change(target, summary="end it")) == []


def test_a_step_that_the_plan_did_not_have_is_more():
    found = difference(ShownHost(host="h", steps=()), ShownHost(host="h", steps=(change(process(1)),)), (), ())
    assert [it.step for it in found.more] == ["stop"]


def test_what_is_gone_is_said():
    assert less(change(process(1), process(2)), change(process(2))) == [
        "stop: 1 of the processes of the plan is gone, or left alone now: 1 train.py (alice)"
    ]
    assert less(change(process(1)), IDLE) == ["stop: no longer done: nothing is there"]
    assert less(change(process(1))) == ["stop: no longer needed"]
    assert less(change(file("a")), change(file("b"))) == []
    assert less(IDLE, IDLE) == []


def finding(status: Presence, severity: Severity = Severity.ERROR) -> Finding:
    return Finding(id="wedged", severity=severity, status=status, say="a GPU is busy")


@every_row(
    ("then", "now", "count"),
    [
        (finding(Presence.ABSENT), finding(Presence.PRESENT), 1),
        (finding(Presence.UNKNOWN), finding(Presence.PRESENT), 1),
        (finding(Presence.PRESENT), finding(Presence.PRESENT), 0),
        (finding(Presence.PRESENT), finding(Presence.ABSENT), 0),
        (finding(Presence.ABSENT), finding(Presence.UNKNOWN), 0),
        (finding(Presence.ABSENT, Severity.WARNING), finding(Presence.PRESENT, Severity.WARNING), 0),
    ],
)
def test_an_error_that_was_not_there_is_more(then, now, count):
    host = ShownHost(host="h", steps=())
    found = [it.words for it in difference(host, host, [then], [now]).more]
    assert found == ["found now, and not when the plan was made: wedged: a GPU is busy"] * count
