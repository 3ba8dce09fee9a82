"""A host whose turn to be changed has not come is not changed, whatever its probes find meanwhile; and who hangs is named.

Mutants: host_guards.py lets a change pass; host_work.py goes through the steps of such a host without a guard, or forgets
that a change was wanted; fleet.py does not say that a host is connected to once more.
"""

from __future__ import annotations

import threading

from runbook.errors import Unreachable
from runbook.execution.diagnosis.host_context import RunContext
from runbook.execution.executor import Consent
from runbook.execution.fleet import Cancellation, Fleet
from runbook.language.loader import load_playbook
from runbook.reporting.reporters.console.progress import Progress
from runbook.values.event import RunStarted
from runbook.values.inventory import Host
from runbook.values.result import Mode, Verdict
from tests.fleet.toy_run import BOOK, Machine, Watch
from tests.support.tables import every_row
from tests.support.toy_actions import ACTIONS, ToyClock
from tests.support.waiting import soon

PLAIN = """\
name: toy
remediate:
  - {id: stop, end: {word: zombie}}
limits: {max_unavailable: 1}
"""


def test_what_falls_ill_between_its_plan_and_its_step_waits_for_its_turn_and_is_then_cured():
    watch, connected = Watch(), []
    machines = {name: Machine(procs={4: (1, "zombie")}, name=name, watch=watch, seconds=0.01) for name in "abc"}
    machines["late"] = Machine(procs={}, name="late", watch=watch, falls_ill_at=1)

    def connect(host):
        connected.append(host.name)
        return machines[host.name]

    fleet = Fleet(playbook=load_playbook(PLAIN, "toy.yaml", ACTIONS), run=RunContext(inputs={}, facts={}, actions=ACTIONS, emit=watch.note), connect=connect, clock=ToyClock(), stop=Cancellation())  # fmt: skip
    results = fleet.plan_and_carry_out([Host(name=name) for name in machines], Consent.YES)
    assert [it.verdict for it in results] == [Verdict.RESOLVED] * 4
    assert watch.most_unavailable == 1
    assert watch.reported == dict.fromkeys(machines, 1)
    assert connected.count("late") == 2, "it was probed again at its turn"
    assert [len(it.writes()) for it in machines.values()] == [1, 1, 1, 1]


@every_row("two_phases", [False, True])
def test_a_host_that_hangs_when_its_turn_comes_is_named_on_the_terminal(two_phases):
    progress, release, stop, lock = Progress(), threading.Event(), Cancellation(), threading.Lock()
    machines = {name: Machine(procs={4: (1, "zombie")}, name=name) for name in ("h1", "h2")}
    machines["h1"].seconds = 0.3  # so that h2 has to wait
    connected: list[str] = []

    def connect(host):
        connected.append(host.name)
        if connected.count(host.name) > 1 and host.name == "h2":
            release.wait(60)
            raise Unreachable("no answer")
        return machines[host.name]

    def emit(event):
        with lock:
            progress.on(event, 0.0)

    def lines():
        with lock:
            return progress.lines(8, 200, 20.0)

    text = f"{BOOK}limits: {{batches: [1]}}\n"
    fleet = Fleet(playbook=load_playbook(text, "toy.yaml", ACTIONS), run=RunContext(inputs={}, facts={}, actions=ACTIONS, emit=emit), connect=connect, clock=ToyClock(), stop=stop)  # fmt: skip
    hosts = [Host(name=name) for name in machines]
    emit(RunStarted(run="r", playbook="toy", mode=Mode.RUN, hosts=tuple(machines)))
    ends: list = []

    def go():
        if two_phases:
            ends.extend(fleet.carry_out(fleet.plan(hosts), Consent.SHOWN))
        else:
            ends.extend(fleet.plan_and_carry_out(hosts, Consent.YES))

    thread = threading.Thread(target=go)
    thread.start()
    try:
        assert soon(lambda: connected.count("h2") == 2)
        assert soon(lambda: "  probing (20 s): h2" in lines()), lines()
    finally:
        release.set()
        thread.join(60)
    assert [it.verdict for it in ends] == [Verdict.RESOLVED, Verdict.UNREACHABLE]
