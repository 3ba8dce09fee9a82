"""Tells the console of a run on 200 hosts that never was, one event at a time: ``replay_events.py FOLDER``.

It goes on at each of three places once the file with that number is in FOLDER.
"""

from __future__ import annotations

import sys
from pathlib import Path

from runbook.reporting.reporters.console import Reporter
from runbook.reporting.standard_streams import take_over_standard_streams
from runbook.values.event import HostFinished, HostStarted, RunFinished, RunStarted, StepStarted, Waiting
from runbook.values.result import HostResult, Mode, RunResult, Verdict
from tests.support.waiting import appears

HOSTS = tuple(f"gpu-{number:03}" for number in range(1, 201))


def main(folder: Path) -> None:
    take_over_standard_streams()
    tell = Reporter(sys.stdout).on
    results = tuple(
        HostResult(host=it, verdict=Verdict.FAILED if number % 50 == 7 else Verdict.HEALTHY, error="no \033[31mroute" if number % 50 == 7 else None)
        for number, it in enumerate(HOSTS)
    )  # fmt: skip
    tell(RunStarted(run="r", playbook="feed", mode=Mode.RUN, hosts=HOSTS))
    for it in HOSTS[:100]:
        tell(HostStarted(host=it))
    for number, it in enumerate(HOSTS[:60]):
        tell(StepStarted(host=it, step=f"step_{number % 12}", action="command"))
    tell(Waiting(host=HOSTS[70], why="waiting for something whose name \033[2J is long and longer and longer still"))
    appears(folder / "1")
    for it in results[:100]:
        tell(HostFinished(result=it))
    appears(folder / "2")
    for it in results[100:]:
        tell(HostFinished(result=it))
    appears(folder / "3")
    tell(RunFinished(result=RunResult(
        run="r", playbook="feed", mode=Mode.RUN, started_at="", seconds=1, exit_code=1, hosts=results,
        totals={"failed": 4, "healthy": 196},
    )))  # fmt: skip


main(Path(sys.argv[1]))
