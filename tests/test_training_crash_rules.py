"""What `training-crash` says of a log, by the words of its findings."""

from __future__ import annotations

from functools import cache

from engine.actions import discover
from engine.actions.files import log_scan
from engine.app.input_files import find_playbook, read_playbook
from engine.codec import to_json
from engine.expressions.templates import Scope, render
from engine.lang.arguments import build
from engine.values.playbook import Playbook
from tests.probe_driver import Here, drive

WATCHDOG = (
    "[E ProcessGroupNCCL.cpp:458] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 25625613 milliseconds before timing out."
)


@cache
def book() -> Playbook:
    return read_playbook(find_playbook("training-crash"), discover())


def said(finding: str, *lines: str) -> str:
    """What *finding* says, where the trainer's log has *lines*."""
    (trainer,) = (it.args for it in book().diagnose if it.id == "trainer")
    signatures = {
        name: text for name, text in trainer["signatures"].items() if isinstance(text, str) and "{{" not in text
    }
    args = build(log_scan.Args, {"text": "\n".join(lines), "signatures": signatures, "ignore_case": True})
    state = drive(log_scan.probe(args), Here())
    (rule,) = (it for it in book().findings if it.id == finding)
    return str(render(rule.say, Scope(inputs={}, looks={"trainer": to_json(state)})))


def test_the_rank_that_came_least_far_is_named():
    """Mutants: the first line taken whoever it is of; a few collectives under way taken for ranks that drifted apart."""
    lines = [WATCHDOG.format(rank=rank, number=number) for rank, number in ((0, 9020), (0, 9017), (7, 6088), (0, 9025))]
    words = said("collective_timeout", *lines)
    assert "[Rank 7]" in words
    assert "other ranks were at SeqNum 9025: they have drifted apart, and this one lags" in words
    assert "drifted" not in said("collective_timeout", *lines[:2])
    plain = "dump signal due to a collective timeout from  rank 13"
    assert said("collective_timeout", plain).endswith(plain)
