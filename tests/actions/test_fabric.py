"""fabric, and what the playbook fabric-manager concludes: which fault it is, and when a start or a restart is permitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from runbook.commands.input_files import find_playbook, read_playbook
from runbook.errors import ProbeError
from runbook.language.arguments import build
from runbook.language.expressions.templates import Scope, evaluate, say
from runbook.library.fabric import fabric
from runbook.library.gpu.facts.smi_output import FRAME
from runbook.library.gpu.facts.smi_query import CORE, OPTIONAL
from runbook.plugins import discover
from runbook.protocols import Absent, Fails, Holds
from runbook.values.command import Command, Completed, Effect
from runbook.values.types import Unknown
from tests.support.data_readers import kernel_conclusions
from tests.support.fake_nvidia_smi import gpu
from tests.support.probe_driver import drive
from tests.support.tables import every_row

DRIVER = "580.65.06"
NO_UNIT = "user=0\nId=nvidia-fabricmanager.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\n"
NOTHING = "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
EXITED = "nvidia-fabricmanager.service: Control process exited, code=exited, status=1/FAILURE"


def unit(active: str = "active", enabled: str = "enabled", load: str = "loaded") -> str:
    return f"user=0\nId=nvidia-fabricmanager.service\nLoadState={load}\nActiveState={active}\nSubState=x\nUnitFileState={enabled}\n"


@dataclass
class Host:
    """What one host answers to each question of the probe."""

    switches: int = 4
    procfs: int = 0
    states: tuple[tuple[str, str] | None, ...] = (("Completed", "Success"),) * 2
    """State and status of each GPU; None: the driver does not know the columns."""
    unit: str = unit()
    version: str | None = DRIVER
    driver: str = DRIVER
    running: bool = True
    journal: tuple[str, ...] = ()
    container: bool = False
    smi: Completed | None = None
    present: str = "probed\npci 0000:90:00.0\nbus 0000:90:00.0\nbus 0000:91:00.0\nnode /dev/nvidia0\ntool\n"

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        assert {it.effect for it in commands} == {Effect.READ}
        if len(commands) == 1:
            return (self.smi or self._smi(),)
        texts = (self._bus(), self._module(), self.present, self.unit, self._manager())
        return tuple(Completed(exit_code=0, stdout=it) for it in texts)

    def _bus(self) -> str:
        rows = [
            f"device\t0000:c{it}:00.0\t0x068000\t0x22a3\t-\t-\t-\t-\t-\t-\tD0\tde10a322" for it in range(self.switches)
        ]
        return "\n".join(["probed", *rows, *(["container"] if self.container else [])]) + "\n"

    def _module(self) -> str:
        return f"loaded\nversion {self.driver}\nmodule nvidia 0\nuser 0\n"

    def _manager(self) -> str:
        lines = ["switch"] * self.procfs + (["running"] if self.running else [])
        if self.version is not None:
            lines += ["installed", "version\t", "version\t  Fabric Manager version is : " + self.version]
        return "\n".join([*lines, *(f"said\t{it}" for it in self.journal), "end", ""])

    def _smi(self) -> Completed:
        rows = [gpu(it) for it in range(len(self.states))]

        def section(name: str, columns: tuple[str, ...], lines: list[str], code: int = 0) -> str:
            return f"{FRAME} begin {name} {','.join(columns)}\n" + "\n".join(lines) + f"\n\n{FRAME} end {code}\n"

        full = (*CORE, *OPTIONAL)
        text = section("gpus", full, [", ".join(row[column] for column in full) for row in rows])
        if None in self.states:
            for it in ("fabric.state", "fabric.status"):
                text += section("part", ("index", it), [f'Field "{it}" is not a valid field to query.'], 2)
        else:
            lines = [f"{at}, {', '.join(it)}" for at, it in enumerate(self.states) if it]
            text += section("part", ("index", "fabric.state", "fabric.status"), lines)
        return Completed(exit_code=0, stdout=text)


def probed(host: Host) -> Any:
    return drive(fabric.probe(build(fabric.Args, {})), host)


BOOK = read_playbook(find_playbook("fabric-manager"), discover())
NOBODY = {"processes": [], "foreign": [], "protected": []}
JOB = {**NOBODY, "processes": ["pid 7 python3 train.py"]}
MPS = {**NOBODY, "protected": [{"command": "/usr/bin/nvidia-cuda-mps-server", "why": "a daemon of the GPU driver"}]}


def concluded(host: Host, holders: Any = NOBODY, log: str = "", **inputs: Any) -> tuple[set[str], set[str]]:
    """The findings but for infos, and the steps that would be done for them."""
    state = probed(host)
    looks = {"fabric": state, "holders": holders, "kernel": {"sick_switches": kernel_conclusions(log)["sick_switches"]}}
    scope = Scope(inputs={"restart": False, **inputs}, host={"name": "h"}, run={}, states=looks, let=BOOK.let[""])
    present: set[str] = set()
    for rule in BOOK.findings:
        if not present & set(rule.unless) and evaluate(rule.when, scope):
            assert not isinstance(evaluate(rule.when, scope), Unknown), rule.id
            present.add(rule.id)
            assert say(rule.say, scope)
    drives = {it.id for it in BOOK.findings if it.severity.drives}
    shown = {it for it in present if it not in {rule.id for rule in BOOK.findings if rule.severity == "info"}}
    steps = {it.id for it in BOOK.remediate if {*it.for_} & present & drives and evaluate(it.when, scope) is True}
    return shown, steps


PROGRESS = (("In Progress", "[N/A]"),) * 2
NONE = (("[N/A]", "[N/A]"),) * 2
DOWN = {"unit": unit("inactive"), "running": False}
FATAL = "[  100.000000] nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
MILD = (
    "[  100.000000] nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error"
)


@every_row(
    ("host", "findings", "steps"),
    [
        pytest.param(Host(), set(), set(), id="healthy"),
        pytest.param(Host(states=NONE), set(), set(), id="a100, whose driver reports no fabric"),
        pytest.param(Host(states=(None, None)), set(), set(), id="a driver before R525"),
        pytest.param(Host(switches=0, states=NONE, version=None, unit=NO_UNIT, running=False), set(), set(), id="no switches"),
        pytest.param(Host(switches=0, states=(("Not Supported", "Success"),) * 2, version=None, unit=NO_UNIT, running=False), set(), set(), id="not supported"),
        pytest.param(Host(switches=0, version=None, unit=NO_UNIT, running=False), set(), set(), id="a rack's switches are elsewhere"),
        pytest.param(Host(switches=0, states=NONE, journal=(NOTHING, EXITED), unit=unit("failed"), running=False), set(), set(), id="nothing to do is benign"),
        pytest.param(Host(states=PROGRESS, **DOWN), {"stopped"}, {"start"}, id="stopped"),
        pytest.param(Host(switches=0, procfs=4, states=PROGRESS, **DOWN), {"stopped"}, {"start"}, id="switches by /proc only"),
        pytest.param(Host(states=PROGRESS, unit=unit("failed"), running=False), {"stopped"}, {"start"}, id="failed"),
        pytest.param(Host(states=NONE, **DOWN), {"stopped"}, {"start"}, id="a100, stopped"),
        pytest.param(Host(states=PROGRESS, running=False, unit=unit("inactive", load="masked", enabled="masked")), {"stopped", "not_at_boot"}, set(), id="masked"),
        pytest.param(Host(states=PROGRESS, version="580.82.07", **DOWN), {"other_version"}, set(), id="other version"),
        pytest.param(Host(version="580.82.07"), {"other_version"}, set(), id="updated below a fabric that still works"),
        pytest.param(Host(states=PROGRESS, version=None, unit=NO_UNIT, running=False), {"not_installed"}, set(), id="not installed"),
        pytest.param(Host(switches=0, states=PROGRESS, version=None, unit=NO_UNIT, running=False), {"elsewhere"}, set(), id="a guest"),
        pytest.param(Host(switches=0, states=PROGRESS, journal=(NOTHING,), **DOWN), {"elsewhere"}, set(), id="blackwell without nvlsm"),
        pytest.param(Host(switches=4, states=PROGRESS, container=True, version=None, unit="absent", running=False), {"elsewhere"}, set(), id="a container"),
        pytest.param(Host(states=PROGRESS), {"not_registered"}, set(), id="in progress"),
        pytest.param(Host(states=(("Completed", "Success"), ("Completed", "Failure"))), {"not_registered"}, set(), id="completed, and failed"),
        pytest.param(Host(states=(("Completed", "Success"), ("Not Started", "Success"))), {"not_registered"}, set(), id="success, and not started"),
        pytest.param(Host(unit=unit(enabled="disabled")), {"not_at_boot"}, set(), id="not at boot"),
    ],
)  # fmt: skip
def test_the_fault_and_what_may_be_done_about_it(host, findings, steps):
    """Mutants: needed without switches; agree by the first number only; startable that takes a masked unit."""
    assert concluded(host) == (findings, steps)


@every_row(
    ("states", "holders", "start"),
    [
        (PROGRESS, JOB, True),  # no job works without its fabric: those that wait for it go on
        (NONE, JOB, False),
        (NONE, MPS, False),
        (NONE, {**NOBODY, "foreign": [4711]}, False),
        ((("Completed", "Success"), ("In Progress", "[N/A]")), JOB, False),
        ((("Completed", "Success"),) * 2, NOBODY, True),
    ],
)
def test_it_is_started_only_while_no_job_can_be_at_work(states, holders, start):
    """Mutants: without foreign; without MPS; complete > 0."""
    findings, steps = concluded(Host(states=states, **DOWN), holders)
    assert steps == ({"start"} if start else set())
    assert ("held" in findings) is not start


@every_row(
    ("holders", "restart", "done"),
    [(NOBODY, True, True), (NOBODY, False, False), (JOB, True, False), (MPS, True, False)],
)
def test_it_is_restarted_only_on_demand_and_while_nobody_holds_a_gpu(holders, restart, done):
    findings, steps = concluded(Host(states=PROGRESS), holders, restart=restart)
    assert steps == ({"restart"} if done else set())
    assert ("held" in findings) is (restart and not done)


def test_a_fatal_fault_of_a_switch_is_not_answered_by_a_start():
    assert concluded(Host(states=PROGRESS, **DOWN), log=FATAL) == ({"fatal_switch"}, set())
    assert concluded(Host(), log=MILD) == ({"recovered"}, set())


def test_holders_that_are_not_known_permit_nothing():
    blind = {key: Unknown(why="not root") for key in NOBODY}
    looks = {"fabric": probed(Host(states=NONE, **DOWN)), "holders": blind}
    scope = Scope(inputs={"restart": True}, host={"name": "h"}, run={}, states=looks, let=BOOK.let[""])
    assert [isinstance(evaluate(it.when, scope), Unknown) for it in BOOK.remediate] == [True, True]


def test_a_driver_that_hangs_is_said_and_nothing_is_started():
    host = Host(smi=Completed(exit_code=None, timed_out=True, seconds=30), **DOWN)
    assert concluded(host) == ({"no_answer"}, set())
    (holders,) = (it for it in BOOK.diagnose if it.id == "holders")
    scope = Scope(inputs={}, host={"name": "h"}, run={}, states={"fabric": probed(host)}, let=BOOK.let[""])
    assert evaluate(holders.when, scope) is False, "nvidia-smi is not asked again where it hangs"
    with pytest.raises(ProbeError, match="did not answer within 30 s"):
        fabric.holds(fabric.Args(), probed(host))


def test_a_gpu_that_does_not_say_is_unknown_and_never_registered():
    state = probed(Host(states=(("Completed", "Success"), ("[Unknown Error]", "[Unknown Error]"))))
    assert isinstance(state.incomplete, Unknown)
    assert "GPU 1" in state.incomplete.why
    assert isinstance(state.complete, Unknown)
    with pytest.raises(ProbeError, match="GPU 1"):
        fabric.holds(fabric.Args(), state)


def test_a_gpu_that_nvidia_smi_does_not_list_is_not_known():
    host = Host(present=Host.present + "bus 0000:9f:00.0\n")
    assert concluded(host) == ({"not_known"}, set())
    with pytest.raises(ProbeError, match="0000:9f:00"):
        fabric.holds(fabric.Args(), probed(host))


def test_it_holds_only_where_every_gpu_is_registered_and_the_manager_runs():
    assert isinstance(fabric.holds(fabric.Args(), probed(Host())), Holds)
    assert isinstance(fabric.holds(fabric.Args(), probed(Host(states=PROGRESS))), Fails)
    assert isinstance(fabric.holds(fabric.Args(), probed(Host(running=False))), Fails)


def test_versions_that_are_not_said_are_unknown():
    assert isinstance(probed(Host(version="unknown")).agree, Unknown)
    state = probed(Host(driver="580.65.06", version="580.65.060"))
    assert state.agree is False


def test_the_last_trouble_of_the_journal_is_its_own_not_systemds():
    said = "fabric manager NVIDIA GPU driver interface version 550.127.05 don't match with driver version 550.120."
    assert probed(Host(journal=("Starting it", said, EXITED))).said == said


def test_a_host_without_gpus_has_no_fabric():
    assert isinstance(probed(Host(switches=0, present="probed\n")), Absent)


def test_a_script_that_was_cut_off_is_no_answer():
    class Cut(Host):
        def _manager(self) -> str:
            return "installed\nversion\t"

    with pytest.raises(ProbeError, match="could not be inspected"):
        probed(Cut())
