"""An application with something on every page: plans, answers, holds, a tripped breaker, and a large run that goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from runbook.commands.serve import pages
from runbook.commands.serve.access import Role
from runbook.records.journal import Journal
from runbook.values.event import HostFinished, HostStarted, RunFinished, StepFinished, StepStarted
from runbook.values.plan import Risk
from runbook.watch.events import Alerted, Approved, Began, Ended, Held
from tests.past_runs.recorded import origin, started
from tests.serve.fake_desk import (
    DIGEST,
    NOW,
    Served,
    answered,
    gpu_rule,
    payload,
    proposed,
    refused,
    seen,
    served,
    tripped,
)
from tests.support.sample_runs import sample_host, sample_run

RUN, OLD_RUN = "20270115T075500Z-abcd", "20270115T060000Z-0123"
HOSTS = tuple(f"gpu-{number:04}" for number in range(1, 25))
PLAN = """\
Playbook   zombie-gpu, on 1 host
Asked for  nobody: the rule gpu-held proposes it

gpu-0001
  stop_leftovers  end 2 processes (TERM, KILL after 10 s)
      4711 root  python3 train.py --rank 0 --data /mnt/very/long/path/to/a/data/set/of/many/terabytes/shard-000001.tar
      4712 root  python3 train.py --rank 1 --data /mnt/very/long/path/to/a/data/set/of/many/terabytes/shard-000002.tar
  $ kill -TERM 4711 4712
"""
PATHS = ("/", "/rules", "/hosts", "/hosts/gpu-0001", f"/plans/{DIGEST}", "/runs", f"/runs/{RUN}", "/login")


def _told(made: Served) -> None:
    def plan(digest: str, host: str, **keys: object) -> None:
        made.desk.tell(proposed(digest * 64, host=host, **keys))

    for number, host in enumerate(HOSTS[:9]):
        made.desk.tell(
            Alerted(
                at=NOW - 900, rule="gpu-held", host=host, episode=f"{number}@x", since=NOW - 960 - number, firing=True
            ),
            seen(host, f"{2 + number} leftover processes hold /dev/nvidia{number % 8}", at=NOW - 800 + number),
        )
    for digest, host in (("1", "gpu-0005"), ("2", "gpu-0006")):
        made.desk.tell(Began(at=NOW - 3000, rule="gpu-held", host=host, episode="0@x", digest=digest * 64))
        made.desk.tell(
            Ended(
                at=NOW - 2900, rule="gpu-held", host=host, digest=digest * 64, run=OLD_RUN, verdict="resolved",
                cured=digest == "1", changed=True,
            )
        )  # fmt: skip
    made.desk.tell(
        Began(at=NOW - 300, rule="gpu-held", host="gpu-0004", episode="3@x", digest="4" * 64, approved_by=("anna",)),
        Held(at=NOW - 200, host="gpu-0007", until=NOW + 86400, by="emil", why="the vendor looks at its power supply"),
        Held(at=NOW - 100, host="gpu-0001", until=NOW + 3600, by="anna"),
    )
    for host, question, why, decision in (
        ("gpu-0005", "cooldown", "a run ended 48 min ago, and the rule waits 1 h after each", "wait"),
        ("gpu-0006", "attempts", "2 runs within 24 h have not cured it", "escalate"),
        ("gpu-0007", "held", "emil said to leave it alone", "wait"),
    ):
        made.desk.tell(answered(host=host, question=question, why=why, decision=decision))
    plan("3", "gpu-0008", say="end 4 processes; restart docker.service", risk=Risk.KILLS_PROCESSES)
    made.desk.tell(refused("3" * 64, host="gpu-0008", at=NOW - 50, by="carl", why="its job ends at noon"))
    plan("5", "gpu-0002", say="reset GPU 3", requester="dora")
    made.desk.tell(proposed(host="gpu-0001", say="end 2 processes (TERM, KILL after 10 s)"))
    made.desk.tell(Approved(at=NOW - 40, rule="gpu-held", host="gpu-0002", digest="5" * 64, by="dora"), tripped())


def _goes_on(journal: Journal, hosts: int) -> None:
    """Write the beginning of a run on *hosts* hosts: a part of them is done, and some are at work."""
    begun = started(*(sample_host(number).host for number in range(hosts)), run=RUN)
    reason = replace(origin(), reason="rule gpu-held, approved by anna")
    journal.on(replace(begun, playbook="zombie-gpu", origin=reason))
    for number in range(hosts // 2):
        result = sample_host(number)
        journal.on(HostStarted(host=result.host))
        if number < hosts * 2 // 5 and number != 4:  # of that host, a plan is being carried out
            journal.on(HostFinished(result=result))
            continue
        for each in result.steps[: number % 12]:
            journal.on(StepFinished(host=result.host, result=each))
        if number % 12 and result.steps:
            journal.on(StepStarted(host=result.host, step=result.steps[number % 12].id, action="command"))


@contextmanager
def busy(folder: Path, hosts: int = 1000) -> Iterator[Served]:
    """Give an application whose run on *hosts* hosts goes on."""
    rules = (
        gpu_rule(about="Frees GPUs that processes without a job hold.", then="apply", risk=Risk.KILLS_PROCESSES),
        gpu_rule("gpu-lost", playbook="gpu-fell-off-the-bus"),
    )
    made = served(folder, rules, HOSTS)
    _told(made)
    made.client(Role.ALERT).post("/hooks/alertmanager", json=payload("gpu-0009") | {"truncatedAlerts": 7})
    with closing(Journal(made.records, OLD_RUN)) as journal:
        journal.on(replace(started("gpu-0005", run=OLD_RUN), playbook="zombie-gpu"))
        journal.on(HostFinished(result=sample_host(5)))
        journal.on(RunFinished(result=replace(sample_run(sample_host(5)), run=OLD_RUN)))
    with closing(Journal(made.records, RUN)) as journal, pytest.MonkeyPatch.context() as patched:
        patched.setattr(pages, "_text", lambda plan: (PLAN, ""))
        _goes_on(journal, hosts)
        yield made
        made.desk.closing = True
