"""Take one probe or send one change over a connection, without a playbook around it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

from runbook.execution.diagnosis import HostContext
from runbook.execution.diagnosis.host_context import RunContext
from runbook.execution.diagnosis.probe_types import ProbeRequest
from runbook.execution.diagnosis.probing import run_probes as look_for
from runbook.execution.executor.apply import send
from runbook.plugins import discover
from runbook.protocols import Action
from runbook.values.command import Command, Effect
from runbook.values.inventory import Host
from runbook.values.plan import Change, Risk
from runbook.values.playbook import Phase, Playbook, Step


def site(connection) -> HostContext:
    clock = SimpleNamespace(now=time.monotonic, sleep=time.sleep)  # noqa: TID251 the clock of a real run
    return HostContext(playbook=Playbook(name="p"), run=RunContext(inputs={}, facts={}, actions=ACTIONS, emit=lambda event: None), host=Host(name="h"), connection=connection, clock=clock)  # fmt: skip


def probe(args):
    done = yield Command(script="yes 0123456789abcdef | head -c 9000000", effect=Effect.READ)
    return SimpleNamespace(lines=len(done.stdout.splitlines()))


@dataclass(frozen=True)
class Args:
    pass


State = Args


FLOOD = ModuleType("flood", "A probe that is answered with a flood.")


FLOOD.Args, FLOOD.State, FLOOD.probe = Args, State, probe


ACTIONS = {**discover(), "flood": Action.of(FLOOD)}


def looked(connection, action: str, args: dict, **keys):
    step = Step(id="s", phase=Phase.DIAGNOSE, action=action, **keys)
    (done,) = look_for([ProbeRequest(step=step, args=args)], site(connection))
    return done


def sent(connection, *commands, finally_=(), **keys):
    step = Step(id="s", phase=Phase.REMEDIATE, action="command", **keys)
    return send(site(connection), step, Change(summary="", commands=commands, finally_=finally_, risk=Risk.UNKNOWN))
