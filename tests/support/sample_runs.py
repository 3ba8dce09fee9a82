"""Runs that never were, of any size, for the outputs that show whole runs."""

from __future__ import annotations

from dataclasses import replace

from runbook.values.event import RunFinished
from runbook.values.inventory import LeftOut
from runbook.values.owed import NotedIn, Owed
from runbook.values.plan import Finding, Presence, Risk
from runbook.values.playbook import Phase, Severity
from runbook.values.result import (
    AppliedLimits,
    HostResult,
    Mode,
    RunResult,
    SentCommand,
    Status,
    StepResult,
    Verdict,
    Victim,
)

STEPS = (
    *((Phase.DIAGNOSE, name) for name in ("matches", "holders", "gpus", "kernel", "disk")),
    *(
        (Phase.REMEDIATE, name)
        for name in ("stop_leftovers", "stop_hard", "reset_gpus", "restart_service", "enable_again")
    ),
    *((Phase.VERIFY, name) for name in ("gpus_free", "service_up")),
)
"""Twelve, as many as the largest playbooks have."""


def step(phase: Phase, name: str, status: Status, /, **keys) -> StepResult:
    return StepResult(
        **{
            "id": name,
            "name": f"What {name} is for",
            "phase": phase,
            "action": "command",
            "status": status,
            "verified": True,
            **keys,
        }
    )


def command(line: str, stdout: str = "", stderr: str = "", exit_code: int | None = 0) -> SentCommand:
    return SentCommand(
        line=line, shown=f"$ {line}", effect="write", exit_code=exit_code, stdout=stdout, stderr=stderr, seconds=0.21
    )


def finding(status: Presence, number: int, **keys) -> Finding:
    return Finding(
        **{
            "id": "held",
            "severity": Severity.ERROR,
            "status": status,
            "say": f"{2 + number % 3} leftover processes hold /dev/nvidia0",
            "evidence": {"left": [{"pid": 4000 + number, "name": "python3", "devices": ["/dev/nvidia0"]}]},
            "advise": ("Stop the supervisor that starts them.", "runbook run zombie-gpu --hosts HOST"),
            **keys,
        }
    )


def sample_host(number: int) -> HostResult:
    """One of ten kinds of hosts, by its *number*."""
    name, kind = f"gpu-{number:04}", number % 10
    if kind == 8:
        return HostResult(
            host=name,
            verdict=Verdict.UNREACHABLE,
            seconds=10.0,
            error=f"10.0.{number // 256}.{number % 256}:22: no answer within 10 s",
        )
    if kind == 9:
        return HostResult(host=name, verdict=Verdict.NOT_STARTED, error="the run was stopped: 2 hosts failed")
    failed, changed = kind == 7, kind in (5, 6, 7)
    steps = []
    for place, (phase, step_id) in enumerate(STEPS):
        out = f"{name} {step_id}: " + "".join(f"GPU-{number:08x}-{it} 0 %, 4 MiB\n" for it in range(8))
        status, why, keys = Status.OK, "", {}
        if phase is Phase.REMEDIATE:
            status, why = Status.SKIPPED, "nothing calls for it"
        if step_id == "stop_leftovers" and changed:
            victims = tuple(
                Victim(pid=4000 + number + it, user="root", command="python3 train.py --rank 0") for it in range(3)
            )
            status, why = Status.CHANGED, "end 3 processes (TERM, KILL after 10 s)"
            keys = {"risk": Risk.KILLS_PROCESSES, "victims": victims, "planned": why}
        if step_id == "reset_gpus" and failed:
            status, why = Status.FAILED, "exit code 3: In use by another client"
            keys = {"commands": (command("nvidia-smi --gpu-reset", out, "In use by another client\n", 3),)}
        elif status is not Status.SKIPPED:
            keys["commands"] = (command(f"nvidia-smi --query-gpu=uuid --id={place}", out),)
        if failed and phase is Phase.VERIFY:
            status, why = Status.BLOCKED, "reset_gpus failed"
        if step_id == "restart_service" and changed:
            status, why = Status.CHANGED, "edit /etc/docker/daemon.json"
            keys["diff"] = (
                '--- /etc/docker/daemon.json\n+++ /etc/docker/daemon.json\n@@ -1 +1 @@\n-{}\n+{"live-restore": true}\n'
            )
        seconds = 0.0 if status in (Status.SKIPPED, Status.BLOCKED) else 0.4 + (number + place) % 7
        steps.append(step(phase, step_id, status, why=why, seconds=seconds, **keys))
    blind = finding(Presence.UNKNOWN, number, id="wedged", why="nvidia-smi did not answer within 30 s", evidence={})
    found = {5: Presence.GONE, 6: Presence.GONE, 7: Presence.PRESENT}.get(kind, Presence.ABSENT)
    verdict = {4: Verdict.UNKNOWN, 5: Verdict.RESOLVED, 6: Verdict.RESOLVED, 7: Verdict.FAILED}.get(
        kind, Verdict.HEALTHY
    )
    warned = Finding(
        id="in_use",
        severity=Severity.WARNING,
        status=Presence.PRESENT if kind == 1 else Presence.ABSENT,
        say="left alone, because its GPU is at work",
    )
    owed = Owed(run="20261122T185036Z-1753", playbook="zombie-gpu", by="ops@jump", since="2026-11-22T18:50:36Z",
                steps=("enable_again: turn persistence mode on",), noted=(NotedIn.CONTROLLER,))  # fmt: skip
    return HostResult(
        host=name, verdict=verdict, seconds=sum(it.seconds for it in steps), steps=tuple(steps),
        findings=(finding(found, number), warned, *([blind] if kind == 4 else [])), owed=(owed,) if kind == 7 else (),
    )  # fmt: skip


def sample_run(*hosts: HostResult, **keys) -> RunResult:
    """A run on *hosts*."""
    totals = {it.value: count for it in Verdict if (count := sum(one.verdict is it for one in hosts))}
    return replace(
        RunResult(
            run="20261122T185036Z-1753", playbook="zombie-gpu", mode=Mode.RUN, started_at="2026-11-22T18:50:36Z",
            seconds=51.516, exit_code=1, hosts=hosts, totals=totals, inputs={"grace": "10s", "patterns": ["torchrun", "sglang"]},
            left_out=(LeftOut(host="gpu-9001", why="status: offline"),),
            limits=AppliedLimits(hosts=len(hosts), batches=(1, 9, 90), stop_after=5, pause_between=30.0),
        ),
        **keys,
    )  # fmt: skip


def sample_of(many: int) -> RunResult:
    """A run on so many hosts of ten kinds."""
    numbers = (5, 7, 0) if many == 3 else range(many)
    return sample_run(*map(sample_host, numbers))


def finished(*hosts: HostResult, **keys) -> RunFinished:
    """The last event of such a run."""
    return RunFinished(result=sample_run(*hosts, **keys))
