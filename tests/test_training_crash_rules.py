"""What `training-crash` says of a log, by the words of its findings."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from engine.actions import discover
from engine.actions.files import log_scan
from engine.actions.gpu import nccl_log
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


def said(folder: Path, *lines: str) -> str:
    """What `collective_timeout` says, where the trainer's log has *lines*."""
    (folder / "trainer.log").write_text("".join(f"{line}\n" for line in lines))
    steps = {it.id: it.args for it in book().diagnose}
    signatures = {"collective": steps["trainer"]["signatures"]["collective"]}
    text = "\n".join(lines)
    scan = build(log_scan.Args, {"text": text, "signatures": signatures, "ignore_case": True})
    ranks = build(nccl_log.Args, {"files": [str(folder / "trainer.log")]})
    looks = {
        "trainer": to_json(drive(log_scan.probe(scan), Here())),
        "ranks": to_json(drive(nccl_log.probe(ranks), Here())),
    }
    (rule,) = (it for it in book().findings if it.id == "collective_timeout")
    return " ".join(str(render(rule.say, Scope(inputs={}, looks=looks))).split())


def test_the_rank_that_came_least_far_is_named(tmp_path):
    """Mutant: the finding without what `ranks` saw."""
    lines = [WATCHDOG.format(rank=rank, number=number) for rank, number in ((0, 9020), (0, 9017), (7, 6088), (0, 9025))]
    assert said(tmp_path, *lines).endswith("of the ranks in this log 7 had come less far than the others, which waited")
    assert "less far" not in said(tmp_path, *lines[:2])
    plain = "dump signal due to a collective timeout from rank 13"
    assert said(tmp_path, plain).endswith(plain)
