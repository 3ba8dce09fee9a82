"""The file of a plan: it survives a round trip, and shows what it permits."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from operator import getitem

import pytest

from runbook.commands.apply import ApplyOptions, options_of_plan
from runbook.commands.plans.document import SavedPlan, parsed
from runbook.commands.plans.plan_file import read_plan
from runbook.commands.plans.saved_text import _in_full, expired, from_the_future, plan_text, report_text
from runbook.commands.plans.usage import Usage, Use
from runbook.errors import ConfigError
from runbook.execution.executor.permitted import shown_host
from runbook.values.command import Command, Effect
from runbook.values.plan import Change, NoChange, PlannedStep, Risk, Skip, Target
from runbook.values.playbook import Phase
from runbook.values.result import (
    HostPlan,
    HostResult,
    SentCommand,
    Status,
    StepResult,
    Verdict,
    Victim,
)
from tests.past_runs.saved_plan import saved_plan
from tests.past_runs.scene import resealed
from tests.support.tables import every_row

KILL = Command(argv=("kill", "7"), effect=Effect.WRITE)
VICTIM = Target(kind="process", key="7:1", say="pid 7", pid=7, user="alice", command="train.py")
DISK = Target(kind="file", key="/x 1", say="/x")
CHANGE = Change(summary="end 1 process", commands=(KILL,), risk=Risk.KILLS_PROCESSES, targets=(VICTIM,))
LATER = "only if held is present after stop, at most on /x"


def plan(**keys) -> SavedPlan:
    steps = (
        PlannedStep(id="stop", decision=CHANGE, reach=(VICTIM,)),
        PlannedStep(id="rm", decision=Skip(why="held is not there"), condition=LATER, reach=(DISK,)),
    )
    plain = StepResult(id="stop", phase=Phase.REMEDIATE, action="pkill", status=Status.WOULD_CHANGE)
    results = (
        replace(
            plain, why="end 1 process", planned="end 1 process", risk=Risk.KILLS_PROCESSES, commands=(SentCommand.planned(KILL),),
            victims=(Victim(pid=7, user="alice", command="train.py"),),
        ),
        replace(plain, id="rm", status=Status.SKIPPED, why="held is not there", condition=LATER),
    )  # fmt: skip
    return saved_plan(HostPlan(host="h", steps=steps, results=results), **keys)


def test_a_plan_survives_its_file():
    saved = plan()
    assert parsed(saved.text().encode(), "plan.json") == saved
    assert "pid 7 (alice) train.py" in report_text(saved)


def test_what_a_plan_says_of_steps_that_it_does_not_take_is_read():
    """Mutants: ``_as_planned`` without what may come at its turn; ``_agree`` that looks closer where nothing is permitted."""
    condition = "whatever happened before"
    plain = StepResult(id="tidy", phase=Phase.REMEDIATE, action="command", status=Status.OK, condition=condition)
    would = Change(summary="tidy up", commands=(KILL,), risk=Risk.UNKNOWN)
    later = PlannedStep(id="tidy", decision=NoChange(why="it is tidy"), condition=condition, would=would)
    why = f"it is tidy; {condition}, then: tidy up (unknown)"
    said = replace(plain, why=why, planned="tidy up", risk=Risk.UNKNOWN, commands=(SentCommand.planned(KILL),))
    unfit = PlannedStep(id="unfit", decision=Skip(why="there is no Docker"))
    skipped = replace(
        plain, id="unfit", status=Status.SKIPPED, why="there is no Docker", condition=None, inapplicable=True
    )
    made = shown_host(HostPlan(host="h", steps=(later, unfit), results=(said, skipped)))
    whole = plan()
    host = HostResult(host="h", verdict=Verdict.PLANNED, steps=(said, skipped))
    saved = replace(whole, hosts=(made,), result=replace(whole.result, hosts=(host,))).sealed()
    assert parsed(saved.text().encode(), "plan.json") == saved


def forged(change) -> str:
    """Why a plan is refused whose maker has put *change* into it."""
    tree = json.loads(plan().text())
    change(tree)
    with pytest.raises(ConfigError) as error:
        parsed(resealed(tree), "plan.json")
    return str(error.value)


def shown(tree, number: int):
    """The part of *tree* that says a step to people."""
    return tree["result"]["hosts"][0]["steps"][number]


LINES = "".join(f"+{number}\n" for number in range(100))
ALIKE = "--- /dev/null\n+++ /x\n" + "+x\n" * 50


@every_row(
    ("more", "lines"),
    [
        ({"diff": LINES}, [f"  | +{number}" for number in range(100)]),
        ({"diff": ALIKE}, ["  | --- /dev/null", *["  | +x"] * 50]),
        (
            {"commands": (SentCommand.planned(Command(argv=("x", "y" * 3000), effect=Effect.WRITE)),)},
            [f"  $ x {'y' * 3000}"],
        ),
        (
            {"victims": tuple(Victim(pid=it, user="u", command="z" * 400) for it in range(1, 99))},
            [f"  pid {it} (u) {'z' * 400}" for it in range(1, 99)],
        ),
    ],
)
def test_what_is_to_be_approved_is_shown_whole(more, lines):
    """Mutants: ``plan_text`` without ``_in_full``; ``_in_full`` by the lines, and not by how often each is there."""
    step = StepResult(id="doit", phase=Phase.REMEDIATE, action="x", status=Status.WOULD_CHANGE, why="y", **more)
    whole = plan()
    saved = replace(
        whole, result=replace(whole.result, hosts=(HostResult(host="h", verdict=Verdict.PLANNED, steps=(step,)),))
    )
    printed = _in_full(saved)
    assert printed[0] == "h: doit in full:"
    assert not Counter(lines) - Counter(printed)
    assert _in_full(whole) == []


def test_the_text_of_a_plan_has_what_its_report_cuts_short():
    """Mutant: ``plan_text`` without ``_in_full``."""
    saved = plan()
    step = replace(saved.result.hosts[0].steps[0], diff=LINES)
    host = replace(saved.result.hosts[0], steps=(step, *saved.result.hosts[0].steps[1:]))
    own = replace(saved.hosts[0], steps=(replace(saved.hosts[0].steps[0], diff=LINES), *saved.hosts[0].steps[1:]))
    changed = replace(saved, hosts=(own,), result=replace(saved.result, hosts=(host,))).sealed()
    assert "| +99\n" in plan_text("plan.json", changed.text().encode())


STEP = {"kind": "process", "key": "8:1", "say": "pid 8", "pid": 8, "user": "bob", "command": "his.py"}


@every_row(
    "change",
    [
        lambda tree: tree["hosts"][0]["steps"][0]["targets"].append(STEP),
        lambda tree: tree["hosts"][0]["steps"][1]["targets"].append(STEP),
        lambda tree: tree["hosts"][0]["steps"][0].update(risk="reboots"),
        lambda tree: tree["hosts"][0]["steps"][0].update(diff="-a\n"),
        lambda tree: tree["hosts"][0]["steps"][0].update(lines="0" * 16),
        lambda tree: tree["hosts"][0]["steps"][0].update(summary="nothing"),
        lambda tree: tree["hosts"][0]["steps"][1].update(condition=None),
        lambda tree: tree["hosts"][0]["steps"][1].update(
            then={"summary": "reboot", "risk": "reboots", "commands": "0"}
        ),
        lambda tree: tree["hosts"][0]["steps"][0]["targets"][0].update(key="8:1"),
        lambda tree: tree["result"]["hosts"][0]["steps"][0]["commands"][0].update(shown="$ true"),
        lambda tree: tree["hosts"].append(tree["hosts"][0]),
        lambda tree: tree["hosts"].append({**tree["hosts"][0], "host": "other"}),
        lambda tree: tree["result"]["hosts"][0]["steps"][0].update(victims=[]),
        lambda tree: tree["result"]["hosts"][0]["steps"][0].update(status="skipped"),
        lambda tree: tree["result"].update(hosts=[]),
        lambda tree: tree["result"].update(totals={"healthy": 1}),
        lambda tree: tree["result"].update(hosts=tree["result"]["hosts"] * 2, totals={"planned": 2}),
        lambda tree: (
            tree["result"]["hosts"][0].update(verdict="healthy"),
            tree["result"].update(totals={"healthy": 1}),
        ),
        lambda tree: tree["result"]["hosts"][0].update(error="e"),
        lambda tree: shown(tree, 0).update(why="harmless"),
        lambda tree: shown(tree, 0).update(planned="harmless"),
        lambda tree: tree["hosts"][0]["steps"][1]["targets"][0].update(say=""),
        lambda tree: shown(tree, 0).update(inapplicable=True),
        lambda tree: shown(tree, 0).update(phase="diagnose"),
        lambda tree: shown(tree, 0)["commands"][0].update(effect="read"),
        lambda tree: shown(tree, 1).update(why="harmless"),
        lambda tree: shown(tree, 1).update(inapplicable=True),
        lambda tree: shown(tree, 1).update(status="ok"),
        lambda tree: shown(tree, 1).update(victims=[{"pid": 1, "user": "x", "command": "y"}]),
        lambda tree: tree["result"]["hosts"][0]["steps"].append(shown(tree, 0)),
    ],
)
def test_a_plan_that_shows_one_thing_and_permits_another_is_refused(change):
    """Mutants: document.py: each part of ``_contradiction``, ``_agree`` and ``_as_planned`` left out."""
    assert "what the plan shows is not what it permits" in forged(change)


@every_row("name", ["../../etc/x", "", "A" * 32, "ab"])
def test_the_id_of_a_plan_is_no_path(name):
    """Mutants: document.py without the check of the id."""
    assert "its id is not one" in forged(lambda tree: tree.update(plan=name))


@every_row(
    ("change", "words"),
    [
        (lambda tree: tree.update(expires_at="2999-01-01T00:00:00"), "expires_at is no time with a zone"),
        (lambda tree: tree["made"].update(at="yesterday"), "made.at is no time with a zone: 'yesterday'"),
        (lambda tree: tree["secrets"].update(salt="zz"), "secrets.salt is not written in hexadecimal digits"),
        (lambda tree: tree["secrets"].update(values={"token": "\xe9"}), "secrets.values.token is no digest"),
        (lambda tree: tree.update(options={}), "options.tags is not there"),
        (lambda tree: tree["options"].update(order=5), "options.order is not what that option can be"),
        (lambda tree: tree["options"].update(order="up"), "options.order is not what that option can be"),
        (lambda tree: tree["options"].update(force="no"), "options.force is not what that option can be"),
        (lambda tree: tree["options"].update(tags=[1]), "options.tags is not what that option can be"),
        (lambda tree: tree["options"].update(yes=True), "options.yes is not what that option can be"),
        (lambda tree: tree["options"].update(yes="x"), "options.yes is not what that option can be"),
        (lambda tree: tree["rests_on"].update(inventory=["/x", "/\0"]), "rests_on.inventory[1] names no file"),
        (lambda tree: tree["result"].update(exit_code=False), "$.result.exit_code has another type"),
        (lambda tree: tree.update(approvals=-1), "approvals is -1"),
        (lambda tree: tree.update(approvals="0"), "$.approvals has another type"),
        (lambda tree: tree["rests_on"].update(inventory=["/x", "/y", "/x"]), "rests_on.inventory names '/x' twice"),
        (
            lambda tree: tree["rests_on"].update(inventory=[f"/{number}" for number in range(1001)]),
            "rests_on.inventory has 1001 files, and may have 1000",
        ),
        (lambda tree: tree["rests_on"].update(playbook="/x\0"), "rests_on.playbook names no file"),
        (lambda tree: tree["made"].update(user=["alice"]), "$.made.user has another type"),
        (lambda tree: tree["made"].pop("user"), "required field missing @ $.made.user"),
    ],
)
def test_a_field_that_is_not_what_a_plan_has_is_named(change, words):
    """Mutants: document.py: each ``yield`` left out; codec.py that gives the words of the whole."""
    assert words in forged(change)


def places(tree, path=()):
    """The way to every field of *tree*."""
    for name, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield (*path, name)
        yield from places(value, (*path, name))


WRONG = (None, True, -1, 1e400, "zz", "\0\ud800", [], [5], {}, {"x": 5}, {"$unknown": 5})


def read_whole(raw: bytes) -> bool:
    """Read a plan as ``show`` and ``apply`` do; whether it is one."""
    try:
        saved = parsed(raw, "plan.json")
    except ConfigError as error:
        assert str(error).startswith("plan.json")
        return False
    now = datetime.now(UTC)
    assert isinstance(report_text(saved), str)
    assert (expired(saved, now), from_the_future(saved, now)) in ((True, False), (False, False))
    assert options_of_plan(saved, ApplyOptions()).plan_only
    bytes.fromhex(saved.secrets.salt)
    return True


def test_whatever_stands_in_a_field_a_plan_is_read_or_refused():
    """Mutants: document.py ``faults`` that gives nothing."""
    text = plan().text()
    ways = list(places(json.loads(text)))
    read = 0
    for *way, last in ways:
        for wrong in WRONG:
            tree = json.loads(text)
            there = reduce(getitem, way, tree)
            there[last] = wrong
            read += read_whole(resealed(tree))
    assert 0 < read < len(ways) * len(WRONG) / 2


@every_row("depth", [90, 300, 960, 990, 1500])
def test_a_plan_that_is_nested_deeply_is_refused(depth):
    tree = json.loads(plan().text())
    raw = json.dumps({**tree, "run": {}}).encode()
    deep = b"[" * depth + b"]" * depth
    assert not read_whole(raw.replace(b'"run": {}', b'"run": {"x": ' + deep + b"}"))


@every_row("text", ["", "[]", "{", "[" * 100_000, '{"kind": "runbook-plan"}', "kind: runbook-plan"])
def test_what_is_no_plan_is_refused_in_words(text):
    with pytest.raises(ConfigError):
        parsed(text.encode(), "plan.json")


def test_a_plan_is_claimed_once_and_can_be_given_back(tmp_path, monkeypatch):
    """Mutants: usage.py ``claim`` by ``write``; ``_parsed`` that takes a torn record for none."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    use = Use(by="alice", since="2026-01-01T00:00:00Z")
    Usage().claim("ab", use)
    with pytest.raises(ConfigError, match="already applied: alice began to apply it at 2026-01-01T00:00:00Z"):
        Usage().claim("ab", use)
    Usage().release("ab")
    assert Usage().of("ab") is None
    Usage().claim("ab", use)
    Usage().ended("ab", replace(use, exit_code=6))
    assert str(Usage().of("ab")) == "alice applied it at 2026-01-01T00:00:00Z (exit code 6)"
    (tmp_path / "runbook" / "plans" / "cd.json").write_text("")
    assert "somebody began to apply it" in str(Usage().of("cd"))


@pytest.mark.real("root")
def test_a_record_of_use_that_a_stranger_has_made_counts_and_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    Usage().claim("ab", Use(by="alice", since="now"))
    os.chown(tmp_path / "runbook" / "plans" / "ab.json", 4242, 4242)
    with pytest.raises(ConfigError, match="belongs to another user"):
        Usage().of("ab")


def test_a_plan_that_the_group_can_write_is_refused(tmp_path):
    file = tmp_path / "plan.json"
    file.write_text("{}")
    file.chmod(0o660)
    with pytest.raises(ConfigError, match="other users can write to it"):
        read_plan(str(file), trusted=True)
    assert read_plan(str(file), trusted=False) == b"{}"
