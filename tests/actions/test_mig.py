"""mig, and what the playbook mig-layout concludes: modes that wait, instances that are lost, and when GPUs are divided again."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field, fields
from typing import Any

import pytest

from runbook.codec import to_json
from runbook.commands.input_files import find_playbook, read_playbook
from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.language.expressions.templates import Scope, evaluate, render, say
from runbook.library.gpu import mig
from runbook.library.gpu.facts.smi_output import FRAME
from runbook.library.gpu.mig.reading import Offer, misfit
from runbook.plugins import discover
from runbook.protocols import Absent, Fails, Holds
from runbook.values.command import Command, Completed, Effect
from runbook.values.plan import Blocked, Change, NoChange
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each
from tests.support.tables import every_row

A, B = "GPU-0a1b2c3d-0000-1111-2222-000000000000", "GPU-0a1b2c3d-0000-1111-2222-000000000001"
OFFERS = {
    "1g.10gb": (19, 7, 1, "0,1,2,3,4,5,6"),
    "2g.20gb": (14, 3, 2, "0,2,4"),
    "3g.40gb": (9, 2, 4, "0,4"),
    "7g.80gb": (0, 1, 8, "0"),
}
HALVES = ("3g.40gb", "3g.40gb")


def section(name: str, text: str, code: int = 0, columns: str = "x") -> str:
    return f"{FRAME} begin {name} {columns}\n{text}\n\n{FRAME} end {code}\n"


@dataclass
class Host:
    """What one host answers about two GPUs; instances are those of GPU 0."""

    modes: tuple[tuple[str, str], ...] = (("Enabled", "Enabled"), ("Disabled", "Disabled"))
    instances: tuple[str, ...] = ()
    without_compute: int = 0
    """How many of them, the last ones, have no compute instance."""
    devices: tuple[str, ...] | None = None
    """What -L lists; None: what there is."""
    of_the_other: tuple[str, ...] = ()
    """What -L lists of GPU 1."""
    lgi: tuple[str, int] | None = None
    """Said instead of the table of instances, with its exit code."""
    offers: bool = True
    held: str = ""
    """The device node that a process has open."""
    root: bool = True
    smi: Completed | None = None
    present: str = "probed\npci 0000:1a:00.0\nbus 0000:1a:00.0\nbus 0000:3d:00.0\nnode /dev/nvidia0\nnode /dev/nvidia1\ntool\nminor 0000:1a:00.0 0\nminor 0000:3d:00.0 1\n"
    blind: bool = False

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        assert {it.effect for it in commands} == {Effect.READ}
        answers = (self.present, "", "0\n" if self.root else "1000\n")
        return (*(Completed(exit_code=0, stdout=it) for it in answers), self.smi or self._smi())

    def _smi(self) -> Completed:
        rows = "\n".join(
            f"{at}, {uuid}, 00000000:{bus}:00.0, NVIDIA H100, {', '.join(self.modes[at])}"
            for at, (uuid, bus) in enumerate(((A, "1A"), (B, "3D")))
        )
        text = section("gpus", rows, columns=",".join(mig.COLUMNS))
        if "Enabled" in {current for current, _ in self.modes}:
            text += self._tables()
        return Completed(exit_code=0, stdout=text)

    def _tables(self) -> str:
        usable = len(self.instances) - self.without_compute
        gi = "\n".join(
            f"|   0  MIG {it:15} {OFFERS[it][0]:3}      {at + 1:3}          0:4     |"
            for at, it in enumerate(self.instances)
        )
        ci = "\n".join(
            f"|   0     {at + 1:3}       MIG {it:15} 0         0          0:4     |"
            for at, it in enumerate(self.instances[:usable])
        )
        said, code = self.lgi or ((gi, 0) if gi else ("No GPU instances found: Not Found", 6))
        listed = self.instances[:usable] if self.devices is None else self.devices
        names = [
            f"GPU 0: NVIDIA H100 (UUID: {A})",
            *(f"  MIG {it}     Device  {at}: (UUID: MIG-{at})" for at, it in enumerate(listed)),
        ]
        lgip = "\n".join(
            f"|   0  MIG {it:15} {at:3}     {most}/{most}        9.75       No     16     1     0   |"
            for it, (at, most, _, _) in OFFERS.items()
        )
        lgipp = "\n".join(
            f"GPU  0 Profile ID {at} Placements: {{{starts}}}:{size}" for at, _, size, starts in OFFERS.values()
        )
        return (
            section("lgi", said, code)
            + (section("lci", ci) if ci else section("lci", "No compute instances found: Not Found", 6))
            + section(
                "lgip",
                lgip if self.offers else "Failed to display GPU instance profiles: Unknown Error",
                0 if self.offers else 255,
            )
            + section("lgipp", lgipp if self.offers else "")
            + section(
                "list",
                "\n".join(
                    [
                        *names,
                        f"GPU 1: NVIDIA H100 (UUID: {B})",
                        *(f"  MIG {it}     Device  0: (UUID: MIG-9)" for it in self.of_the_other),
                    ]
                ),
            )
        )


@dataclass(frozen=True)
class Holding:
    """Who holds what, in place of a walk through /proc."""

    uuids: dict[str, bool | Unknown] = field(default_factory=dict)

    def held(self, gpu: Any) -> bool | Unknown:
        return self.uuids.get(gpu.uuid, False)


@pytest.fixture
def holders(monkeypatch):
    """Sets who holds a GPU."""
    said = Holding()
    monkeypatch.setattr(mig, "read_users", lambda *_: said)
    return said.uuids


def probed(host: Host, **arguments: Any) -> tuple[Any, Any]:
    args = build(mig.Args, arguments)
    return args, drive(mig.probe(args), host)


def decided(host: Host, **arguments: Any) -> Any:
    return mig.decide(*probed(host, **arguments))


BOOK = read_playbook(find_playbook("mig-layout"), discover())


def concluded(host: Host, **inputs: Any) -> set[str]:
    """The findings but for infos; what each says can be filled in."""
    _, state = probed(host, **inputs)
    values = {it.name: getattr(state, it.name) for it in fields(state)}
    looks = {"mig": {name: value if isinstance(value, Unknown) else to_json(value) for name, value in values.items()}}
    scope = Scope(
        inputs={"layout": {}, "rebuild": False, **inputs}, host={"name": "h"}, run={}, states=looks, let=BOOK.let[""]
    )
    present: set[str] = set()
    for rule in BOOK.findings:
        if present & set(rule.unless) or not (answer := evaluate(rule.when, scope)):
            continue
        assert not isinstance(answer, Unknown), (rule.id, answer)
        present.add(rule.id)
        assert say(rule.say, scope)
        assert all("not filled in" not in render(it, scope) for it in rule.advise)
    return {it.id for it in BOOK.findings if it.id in present and it.severity != "info"}


WANTED = {"0": ["3g.40gb", "3g.40gb"]}
OFF = (("Disabled", "Disabled"),) * 2


@every_row(
    ("host", "layout", "findings"),
    [
        pytest.param(Host(modes=OFF), {}, set(), id="no MIG"),
        pytest.param(Host(modes=(("[N/A]", "[N/A]"),) * 2), {}, set(), id="GPUs without MIG"),
        pytest.param(Host(instances=HALVES), {}, set(), id="divided, and nobody said how"),
        pytest.param(Host(instances=HALVES), WANTED, set(), id="as wanted"),
        pytest.param(Host(instances=HALVES, offers=False), WANTED, set(), id="as wanted, and the driver cannot list profiles"),
        pytest.param(Host(), {}, {"empty"}, id="nothing after a boot"),
        pytest.param(Host(), WANTED, {"lost"}, id="lost after a boot"),
        pytest.param(Host(instances=("7g.80gb",)), WANTED, {"other"}, id="other instances"),
        pytest.param(Host(instances=HALVES, without_compute=1), WANTED, {"unusable"}, id="without compute instance"),
        pytest.param(Host(modes=(("Disabled", "Enabled"), ("Disabled", "Disabled"))), {}, {"mode_waits"}, id="pending"),
        pytest.param(Host(modes=(("Enabled", "Disabled"), ("Disabled", "Disabled")), instances=HALVES), WANTED, {"mode_waits"}, id="pending off"),
        pytest.param(Host(modes=OFF), WANTED, {"switched_off"}, id="the mode is lost after a boot"),
        pytest.param(Host(modes=(("[N/A]", "[N/A]"),) * 2), WANTED, {"switched_off"}, id="has no such mode"),
        pytest.param(Host(), {"7": ["1g.10gb"]}, {"no_such_gpu", "empty"}, id="no such GPU"),
        pytest.param(Host(), {"0": ["3g.40gb", "3g.40gb", "1g.10gb"]}, {"impossible"}, id="does not fit"),
        pytest.param(Host(), {"0": ["3g.20gb"]}, {"impossible"}, id="a profile of another model"),
        pytest.param(Host(offers=False), WANTED, {"impossible"}, id="not known what fits"),
    ],
)  # fmt: skip
def test_the_fault(host, layout, findings, holders):
    """Mutants: lost where there are other instances; impossible for GPUs that are as wanted; pending left out."""
    assert concluded(host, layout=layout) == findings


def test_what_is_missing_is_made_the_largest_first(holders):
    holders[A] = Unknown(why="not root")  # nothing is destroyed: it does not matter
    made = decided(Host(), layout={A: ["1g.10gb", "3g.40gb", "2g.20gb"]})
    assert isinstance(made, Change)
    (command,) = made.commands
    assert command.argv == (A, "3g.40gb,2g.20gb,1g.10gb", "", "")
    assert command.unkillable
    assert "destroy" not in made.summary


def test_other_instances_are_destroyed_only_with_rebuild(holders):
    """Mutant: without `not args.rebuild`."""
    host = Host(instances=("7g.80gb",))
    blocked = decided(host, layout=WANTED)
    assert isinstance(blocked, Blocked)
    assert "`rebuild: true` allows it" in blocked.why
    made = decided(host, layout=WANTED, rebuild=True)
    assert isinstance(made, Change)
    assert made.commands[0].argv == (A, "3g.40gb,3g.40gb", "7g.80gb", "yes")
    assert made.summary == "GPU 0 (0000:1a:00.0): destroy 7g.80gb, then make 2 x 3g.40gb"
    assert [it.key for it in made.targets] == [A, f"{A}/1/7g.80gb"]


@pytest.mark.parametrize(("held", "why"), [(True, "held by a process"), (Unknown(why="not root"), "not root")])
def test_nothing_is_destroyed_while_somebody_holds_the_gpu_or_that_is_not_known(held, why, holders):
    """Mutant: without the match on `held`."""
    holders[A] = held
    blocked = decided(Host(instances=("7g.80gb",)), layout=WANTED, rebuild=True)
    assert isinstance(blocked, Blocked)
    assert why in blocked.why
    assert concluded(Host(instances=("7g.80gb",)), layout=WANTED, rebuild=True) == {"other", "held"}


@every_row(
    ("host", "layout", "why"),
    [
        (Host(modes=OFF), WANTED, f"nvidia-smi -i {A} -mig 1"),
        (Host(modes=(("Enabled", "Disabled"), ("Disabled", "Disabled"))), WANTED, "changes with the next reset"),
        (Host(), {"0": ["3g.40gb"], "5": ["1g.10gb"]}, "no GPU 5"),
        (Host(), {"0": ["7g.80gb", "1g.10gb"]}, "do not fit"),
        (Host(offers=False), WANTED, "does not say which instances"),
        (Host(root=False), WANTED, "needs root"),
        (Host(lgi=("Insufficient Permissions", 4)), WANTED, "Insufficient Permissions"),
        (Host(lgi=("No GPU instances found: Permission denied", 6)), WANTED, "Permission denied"),
        (Host(smi=Completed(exit_code=None, timed_out=True, seconds=30)), WANTED, "did not answer within 30 s"),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_said_and_nothing_is_sent(host, layout, why, holders):
    """Mutants: an answer that cannot be read as no instances; without misfit."""
    blocked = decided(host, layout=layout, rebuild=True)
    assert isinstance(blocked, Blocked), blocked
    assert why in blocked.why


def test_as_wanted_is_what_the_list_of_devices_shows_and_not_what_was_said(holders):
    """Mutant: _is_so without the devices."""
    assert isinstance(decided(Host(instances=HALVES), layout=WANTED), NoChange)
    assert isinstance(mig.holds(*probed(Host(instances=HALVES), layout=WANTED)), Holds)
    assert isinstance(mig.holds(*probed(Host(instances=HALVES, devices=()), layout=WANTED)), Fails)
    parts = Host(instances=HALVES, without_compute=1, devices=("1c.3g.40gb", "2c.3g.40gb"))
    assert isinstance(mig.holds(*probed(parts, layout=WANTED)), Fails)
    assert isinstance(mig.holds(*probed(Host(instances=HALVES, devices=(), of_the_other=HALVES), layout=WANTED)), Fails)
    assert isinstance(mig.holds(*probed(Host(), layout=WANTED)), Fails)
    assert isinstance(mig.holds(*probed(Host(modes=OFF), layout=WANTED)), Fails)
    assert isinstance(mig.holds(*probed(Host(modes=OFF))), Holds)
    with pytest.raises(ProbeError, match="Insufficient"):
        mig.holds(*probed(Host(lgi=("Insufficient Permissions", 4))))


def test_a_gpus_own_layout_comes_before_that_of_all(holders):
    both = Host(modes=(("Enabled", "Enabled"),) * 2)
    _, state = probed(both, layout={"all": ["7g.80gb"], "00000000:1A:00.0": ["1g.10gb"]})
    assert state.wanted == {A: ("1g.10gb",), B: ("7g.80gb",)}


def test_a_driver_before_mig_and_a_host_without_gpus(holders):
    refused = section("gpus", 'Field "mig.mode.current" is not a valid field to query.', 2, ",".join(mig.COLUMNS))
    plain = section("gpus", f"0, {A}, 00000000:1A:00.0, Tesla V100", columns=",".join(mig.COLUMNS[:4]))
    one = "probed\npci 0000:1a:00.0\nbus 0000:1a:00.0\ntool\n"
    assert concluded(Host(smi=Completed(exit_code=0, stdout=refused + plain), present=one)) == set()
    assert isinstance(probed(Host(present="probed\n"))[1], Absent)


def test_a_gpu_that_nvidia_smi_does_not_list_is_not_known(holders):
    host = Host(modes=OFF, present=Host.present + "bus 0000:9f:00.0\n")
    assert concluded(host) == {"not_known"}
    assert concluded(Host(modes=OFF, present=host.present + "container\n")) == set()


@every_row("layout", [{"0": ["3g40gb"]}, {"0": []}, {"0": ["9"]}, {"0": ["1g.10gb; reboot"]}])
def test_a_layout_that_is_none_is_refused_before_any_connection(layout):
    with pytest.raises(ConfigError, match="layout"):
        build(mig.Args, {"layout": layout})


@every_row(
    ("profiles", "fits"),
    [(HALVES, True), ((*HALVES, "1g.10gb"), False), (("1g.10gb",) * 7, True), (("1g.10gb",) * 8, False),
     (("3g.40gb", "2g.20gb", "1g.10gb"), True), (("3g.40gb", "2g.20gb", "2g.20gb"), True),
     (("2g.20gb",) * 3 + ("1g.10gb",), True), (("7g.80gb", "1g.10gb"), False)],
)  # fmt: skip
def test_what_fits_is_decided_by_the_places_that_the_driver_names(profiles, fits):
    """Mutant: `_placed` that takes the first place only."""
    offers = {
        name: Offer(most=most, starts=tuple(map(int, starts.split(","))), size=size)
        for name, (_, most, size, starts) in OFFERS.items()
    }
    assert (misfit(profiles, offers) == "") is fits


TOOL = """#!/bin/sh
echo "$*" >>{folder}/calls
case $* in
  *-dci) exit {dci};; *-dgi) exit {dgi};;
  *"-cgi 7g.80gb"*) exit 0;; *-cgi*) exit {cgi};;
esac
"""


@pytest.mark.parametrize("shell", each(SHELLS))
@pytest.mark.parametrize(
    ("there", "exits", "code", "calls"),
    [
        ("", {}, 0, ["-cgi 3g.40gb,3g.40gb -C"]),
        ("", {"cgi": 19}, 13, ["-cgi 3g.40gb,3g.40gb -C"]),
        ("7g.80gb", {}, 0, ["-dci", "-dgi", "-cgi 3g.40gb,3g.40gb -C"]),
        ("7g.80gb", {"dci": 19}, 11, ["-dci", "-cci"]),
        ("7g.80gb", {"dgi": 19}, 12, ["-dci", "-dgi", "-cci"]),
        ("7g.80gb", {"cgi": 19}, 14, ["-dci", "-dgi", "-cgi 3g.40gb,3g.40gb -C", "-dci", "-dgi", "-cgi 7g.80gb -C"]),
    ],
)  # fmt: skip
def test_compute_instances_go_first_and_what_was_there_comes_back(tmp_path, shell, there, exits, code, calls):
    """The real script. Mutants: -dgi before -dci; without making the old ones again."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(TOOL.format(folder=tmp_path, **{"dci": 0, "dgi": 0, "cgi": 0, **exits}))
    tool.chmod(tool.stat().st_mode | stat.S_IEXEC)
    command = Command(
        script=mig._BUILD, argv=(A, "3g.40gb,3g.40gb", there, "yes" if there else ""), effect=Effect.WRITE
    )
    (done,) = Here(path=tmp_path, shell=SHELLS[shell]).run(command)
    assert done.exit_code == code
    assert (tmp_path / "calls").read_text().splitlines() == [f"mig -i {A} {it}" for it in calls]
    assert bool(mig.refused(command, done)) is (code != 0)
