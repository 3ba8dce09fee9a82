"""Many toy hosts under one playbook, and the order in which they were begun and ended."""

from __future__ import annotations

import threading

from runbook.errors import Unreachable
from runbook.execution.diagnosis.host_context import RunContext
from runbook.execution.fleet import Cancellation, Fleet
from runbook.language.loader import load_playbook
from runbook.values.inventory import Host
from tests.support.toy_actions import ACTIONS, ToyClock, ToyHost

BOOK = """\
name: toy
diagnose:
  - {id: seen, procs: {word: zombie}}
findings:
  - {id: held, when: seen.matches, severity: error}
remediate:
  - {id: stop, for: held, end: {word: zombie}}
limits: {batches: %s%s}
"""


class Diary:
    """In what order the remediation of hosts was begun and ended."""

    def __init__(self) -> None:
        self.lock, self.order = threading.Lock(), []

    def note(self, event) -> None:
        with self.lock:
            match event.kind:
                case "step_started" if f"+{event.host}" not in self.order:
                    self.order.append(f"+{event.host}")
                case "host_finished":
                    self.order.append(f"-{event.result.host}")


def fleet(count: int, batches: str, stop_after: str = "", broken=(), lost=(), idle=(), parallel: int = 32):
    text = BOOK % (batches, f", stop_after: {stop_after}" if stop_after else "")
    names = [f"h{number:02}" for number in range(count)]

    def machine(name):
        procs = {} if name in idle else {4: (1, "zombie")}
        return ToyHost(procs=procs, kill_exit=3 if name in broken else 0, stubborn=frozenset({"zombie"} if name in broken else ()))  # fmt: skip

    hosts, diary, stop = {it: machine(it) for it in names}, Diary(), Cancellation()

    def connect(host):
        if host.name in lost:
            raise Unreachable("no route to host")
        return hosts[host.name]

    made = Fleet(playbook=load_playbook(text, "toy.yaml", ACTIONS), run=RunContext(inputs={}, facts={}, actions=ACTIONS, emit=diary.note), connect=connect, clock=ToyClock(), stop=stop, parallel=parallel)  # fmt: skip
    return made, [Host(name=it) for it in names], diary, hosts
