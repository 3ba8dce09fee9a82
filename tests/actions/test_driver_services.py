"""Services that hold a GPU are stopped for its reset, and exactly those that ran are started again, on every way out."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runbook.errors import Cancelled
from runbook.execution.executor.apply import send
from runbook.library.gpu import gpu_reset
from runbook.library.gpu.facts import driver_services, reset
from runbook.library.gpu.facts.device_users import User, Users
from runbook.values.command import Command, Completed, read
from runbook.values.plan import Blocked, Change
from runbook.values.playbook import Phase, Step
from runbook.values.result import Status
from tests.support.fake_nvidia_smi import Pretended, gpu, plant, uuid
from tests.support.probe_driver import Here, drive
from tests.support.systemd_host import boot
from tests.support.tables import every_row
from tests.support.toy_actions import ToyHost, book, site
from tests.support.waiting import until

SYSTEMCTL = r"""#!/bin/sh
here=${0%/*}/units
echo "$*" >>"${0%/*}/systemctl.calls"
verb= value= keys=
for word do
    case $word in
        --value) value=yes ;;
        show|start|stop) verb=$word ;;
        -p) keys=next ;;
        --|--no*) ;;
        *) if [ "$keys" = next ]; then keys=$word; else name=$word; fi ;;
    esac
done
unit=$here/$name
[ -e "$unit" ] || { [ -n "$value" ] || printf 'Id=%s\nActiveState=inactive\nMainPID=0\n' "$name"; exit 0; }
. "$unit"
case $verb in
    show)
        case $keys in
            ActiveState) echo "$state" ;;
            RequiredBy*) printf '%s\n\n' "$pulls" ;;
            *) printf 'Id=%s\nActiveState=%s\nMainPID=%s\n' "$name" "$state" "$pid" ;;
        esac ;;
    stop|start)
        [ "$broken" != "$verb" ] || { echo "Job for $name failed." >&2; exit 1; }
        state=active; [ $verb = start ] || state=inactive
        printf 'state=%s pid=%s pulls="%s" broken="%s"\n' "$state" "$pid" "$pulls" "$broken" >"$unit" ;;
esac
"""
CHANGES = r"""
case "$*" in *--gpu-reset*|*-pm*)
    echo "$*" >>"${0%/*}/changes"
    case "$*" in *--gpu-reset*) [ ! -e "${0%/*}/refuses" ] || { echo 'In use by another client'; exit 255; } ;; esac
    exit 0 ;;
esac
"""
"""What the pretended nvidia-smi does besides answering."""

SICK = {"gpu_recovery_action": "Reset"}


@dataclass
class Machine:
    """A machine with a pretended nvidia-smi and a pretended systemctl."""

    folder: Path
    here: Here
    holders: list[tuple[int, str]] = field(default_factory=list)

    def unit(self, name: str, pid: int, *, state: str = "active", pulls: str = "", broken: str = "") -> None:
        (self.folder / "units").mkdir(exist_ok=True)
        text = f'state={state} pid={pid} pulls="{pulls}" broken="{broken}"\n'
        (self.folder / "units" / f"{name}.service").write_text(text)

    def state(self, name: str) -> str:
        return (self.folder / "units" / f"{name}.service").read_text().split()[0].partition("=")[2]

    def asked(self, verb: str) -> list[str]:
        path = self.folder / "systemctl.calls"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [it.rpartition(" ")[2] for it in lines if f" {verb} " in f" {it} "]
        return [it for it in found if not it.startswith("runbook-start-again-")]

    def timers(self) -> list[str]:
        """What systemd was told to start by itself, and the timers that were taken away again."""
        path = self.folder / "systemd-run.calls"
        armed = path.read_text().splitlines() if path.exists() else []
        calls = self.folder / "systemctl.calls"
        gone = [it for it in calls.read_text().splitlines() if it.endswith(".timer")] if calls.exists() else []
        return [*armed, *gone]

    def look(self, **args):
        made = gpu_reset.Args(
            gpus=(uuid(0),), **{"stop": ("nvidia-persistenced", "nvidia-dcgm", "dcgm-exporter"), **args}
        )
        return made, drive(gpu_reset.probe(made), self.here)

    def decided(self, **args):
        return gpu_reset.decide(*self.look(**args))


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Machine:
    booted = tmp_path / "booted"
    booted.mkdir()
    monkeypatch.setattr(driver_services, "BOOTED", str(booted))
    monkeypatch.setattr(gpu_reset, "APART", 0.1)
    monkeypatch.setattr(reset, "KERNEL", str(tmp_path / "kmsg"))
    monkeypatch.setattr(gpu_reset, "ask_users", lambda: read("true"))
    folder = Pretended(gpus=[gpu(0, **SICK)]).install(tmp_path / "bin")
    first, _, rest = (folder / "nvidia-smi").read_text().partition("\n")
    (folder / "nvidia-smi").write_text(first + CHANGES + rest)
    (folder / "systemctl").write_text(SYSTEMCTL)
    (folder / "systemctl").chmod(0o755)
    (folder / "systemd-run").write_text('#!/bin/sh\necho "$*" >>"${0%/*}/systemd-run.calls"\n')
    (folder / "systemd-run").chmod(0o755)
    made = Machine(folder=folder, here=Here(path=folder, root=plant(tmp_path / "root", gpus=1), uid="0"))

    def users(_: Completed, presence) -> Users:
        held = tuple(User(pid=pid, name=name) for pid, name in made.holders)
        return Users(by_number={0: held}, blind="", presence=presence)

    monkeypatch.setattr(gpu_reset, "read_users", users)
    return made


def run(machine: Machine, change: Change, connection=None):
    step = Step(id="reset", phase=Phase.REMEDIATE, action="restart", args={})
    return send(site(book(), connection or machine.here), step, change)


def test_what_holds_the_gpu_and_runs_as_a_service_is_stopped_and_started_again(machine):
    machine.unit("nvidia-dcgm", 70)
    machine.unit("nvidia-persistenced", 71)
    machine.holders = [(70, "nv-hostengine")]
    change = machine.decided()
    assert isinstance(change, Change), change
    assert "nvidia-dcgm.service stopped for the reset, and started again even if it fails" in change.summary
    assert run(machine, change).status is Status.CHANGED
    assert machine.asked("stop") == ["nvidia-dcgm.service"], "what holds nothing is left alone"
    assert (machine.state("nvidia-dcgm"), machine.state("nvidia-persistenced")) == ("active", "active")
    assert "--gpu-reset" in (machine.folder / "changes").read_text()


def test_a_process_that_no_service_owns_still_stands_in_the_way(machine):
    machine.unit("nvidia-dcgm", 70)
    machine.holders = [(70, "nv-hostengine"), (99, "nv-hostengine")]
    refused = machine.decided()
    assert isinstance(refused, Blocked)
    assert "held by pid 99 (nv-hostengine)" in refused.why
    assert "pid 70" not in refused.why


def test_nothing_is_stopped_that_was_not_named_or_does_not_run(machine):
    machine.unit("nvidia-dcgm", 70)
    machine.holders = [(70, "nv-hostengine")]
    assert isinstance(machine.decided(stop=()), Blocked)
    machine.unit("nvidia-dcgm", 70, state="inactive")
    assert isinstance(machine.decided(), Blocked), "the pid is another process's by now"


def test_a_service_that_would_take_another_with_it_is_left_alone(machine):
    """A training job that requires the persistence daemon would be stopped with it."""
    machine.unit("nvidia-persistenced", 71, pulls="train.service dcgm-exporter.service")
    machine.unit("train", 72)
    machine.unit("dcgm-exporter", 73)
    machine.holders = [(71, "nvidia-persiste")]
    refused = machine.decided()
    assert isinstance(refused, Blocked)
    assert "would also stop train.service" in refused.why
    machine.unit("train", 72, state="inactive")
    change = machine.decided()
    assert isinstance(change, Change)
    assert change.finally_[0].argv[1:] == ("nvidia-persistenced.service", "dcgm-exporter.service"), "stopped with it"


def test_it_is_started_again_when_the_reset_fails(machine):
    machine.unit("nvidia-dcgm", 70)
    machine.holders = [(70, "nv-hostengine")]
    change = machine.decided()
    (machine.folder / "refuses").touch()
    done = run(machine, change)
    assert done.status is Status.FAILED
    assert machine.state("nvidia-dcgm") == "active"


def test_it_is_started_again_when_the_run_is_cancelled_in_the_reset(machine):
    machine.unit("nvidia-dcgm", 70)
    machine.holders = [(70, "nv-hostengine")]
    change = machine.decided()

    class Interrupted(ToyHost):
        def run(self, *commands):
            if "--gpu-reset" in commands[0].script:
                raise Cancelled("interrupted", sent=True)
            return machine.here.run(*commands)

    done = run(machine, change, Interrupted(procs={}))
    assert done.status is Status.CANCELLED
    assert machine.state("nvidia-dcgm") == "active"


def test_one_that_does_not_come_back_is_told_and_no_reset_is_called_well(machine):
    machine.unit("nvidia-dcgm", 70)
    machine.holders = [(70, "nv-hostengine")]
    made, before = machine.look()
    change = gpu_reset.decide(made, before)
    machine.unit("nvidia-dcgm", 70, broken="start")
    done = run(machine, change)
    assert done.status is not Status.CHANGED
    assert "could not be started again; start it by hand: systemctl start nvidia-dcgm.service" in json.dumps(
        [it.stderr for it in done.commands]
    )
    _, after = machine.look()
    assert "nvidia-dcgm.service ran before the reset, and does not run now" in gpu_reset.explain(made, before, after)


def test_without_systemd_or_its_answer_nothing_is_taken_for_a_service(machine, monkeypatch):
    machine.holders = [(70, "nv-hostengine")]
    machine.unit("nvidia-dcgm", 70)
    (machine.folder / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    assert isinstance(machine.decided(), Blocked)
    monkeypatch.setattr(driver_services, "BOOTED", os.devnull)
    assert isinstance(machine.decided(), Blocked)


def test_nothing_is_stopped_where_systemd_does_not_take_on_to_start_it_again(machine):
    """Mutants: the stop that comes first; an answer of systemd-run that is not inspected."""
    machine.unit("nvidia-dcgm", 70)
    machine.holders = [(70, "nv-hostengine")]
    change = machine.decided()
    (machine.folder / "systemd-run").write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")
    done = run(machine, change)
    assert done.status is Status.FAILED
    assert machine.asked("stop") == []
    assert "no service was stopped" in done.commands[0].stderr
    assert "--gpu-reset" not in (machine.folder / "changes").read_text()


@pytest.fixture(scope="module")
def booted():
    made = boot()
    yield made
    made.stop()


SERVICE = "[Service]\nExecStart=/bin/sleep infinity\n"


@pytest.mark.real("systemd", "root")
def test_what_was_stopped_is_started_by_systemd_itself_where_the_line_is_lost_in_between(booted):
    """Mutants: no timer; a timer that starts what was stopped alone; one that a start leaves behind."""
    for name in ("nvidia-dcgm", "nvidia-persistenced"):
        booted.unit(f"{name}.service", SERVICE)
        booted.run("systemctl", "start", name)
    units = ("nvidia-dcgm.service", "nvidia-persistenced.service")

    def sent(command: Command) -> None:
        booted.run("sh", "-c", command.script, "sh", *command.argv)

    sent(driver_services.stop(units[:1], units, 600))
    assert [booted.show(it, "ActiveState") for it in units] == ["inactive", "active"]
    timer = f"{driver_services._timer(units)}.timer"
    assert booted.show(timer, "ActiveState") == "active"
    sent(driver_services.start_again(units))
    assert [booted.show(it, "ActiveState") for it in (*units, timer)] == ["active", "active", "inactive"]

    sent(driver_services.stop(units, units, 1))  # and here nobody comes back
    until(lambda: {booted.show(unit, "ActiveState") for unit in units} == {"active"})


@every_row("name", ["-x", "a b", "x.target", "../x", ""])
def test_only_services_can_be_named(name):
    with pytest.raises(ValueError, match="not a valid name of a service"):
        gpu_reset.Args(stop=(name,))


def test_a_service_that_a_person_was_not_shown_is_not_stopped(machine):
    """It was started between the plan and the yes."""
    machine.unit("nvidia-dcgm", 70)
    machine.holders = [(70, "nv-hostengine")]
    made, state = machine.look()
    change = gpu_reset.decide(made, state)
    assert "service:nvidia-dcgm.service" in {it.key for it in change.targets}
    assert {it.key for it in change.targets} <= {it.key for it in gpu_reset.reach(made, state)}
    less = gpu_reset.decide(made, gpu_reset.without(state, frozenset({"service:nvidia-dcgm.service"})))
    assert isinstance(less, Blocked)
    assert "held by nvidia-dcgm.service" in less.why
