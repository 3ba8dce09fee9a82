"""nvlink, and what the playbook nvlink concludes: which links are down, which fail, and which only look so."""

from __future__ import annotations

import stat
import textwrap
import time
from dataclasses import dataclass, fields
from typing import Any

import pytest

from runbook.codec import to_json
from runbook.commands.input_files import find_playbook, read_playbook
from runbook.errors import ProbeError
from runbook.language.arguments import build
from runbook.language.expressions.templates import Scope, evaluate, render, say
from runbook.library.fabric import nvlink
from runbook.library.gpu.facts.smi_output import FRAME
from runbook.plugins import discover
from runbook.protocols import Absent, Fails, Holds
from runbook.values.command import Command, Completed, Effect
from runbook.values.types import Unknown
from tests.support.data_readers import kernel_conclusions
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each
from tests.support.tables import every_row

A, B = "GPU-0a1b2c3d-0000-1111-2222-000000000000", "GPU-0a1b2c3d-0000-1111-2222-000000000001"


def section(name: str, text: str, code: int = 0) -> str:
    return f"{FRAME} begin {name} x\n{text}\n\n{FRAME} end {code}\n"


def status(up: int, down: tuple[int, ...] = (), heading: str = "", speed: str = "26.562") -> str:
    lines = [f"\t Link {it}: {'<inactive>' if it in down else speed + ' GB/s'}" for it in range(up + len(down))]
    return "\n".join([heading, *lines])


def errors(heading: str, **counters: int) -> str:
    """``l3_Replay_Errors=2`` is 2 of link 3's."""
    lines = []
    for key, value in counters.items():
        link, _, name = key.partition("_")
        lines.append(f"\t Link {link[1:]}: {name.replace('_', ' ')}: {value}\n")
    return "\n".join([heading, *lines])


H0, H1 = (f"GPU {at}: NVIDIA H100 80GB HBM3 (UUID: {uuid})" for at, uuid in enumerate((A, B)))


@dataclass
class Host:
    """What one host answers."""

    status: str = ""
    first: str | None = ""
    second: str | None = None
    """None: as the first."""
    switches: int = 0
    rows: str = f"0, {A}, 00000000:1A:00.0, NVIDIA H100, Disabled\n1, {B}, 00000000:3D:00.0, NVIDIA H100, Disabled"
    code: int = 0
    smi: Completed | None = None
    present: str = "probed\npci 0000:1a:00.0\nbus 0000:1a:00.0\nbus 0000:3d:00.0\ntool\n"

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        assert {it.effect for it in commands} == {Effect.READ}
        if len(commands) == 1:
            return (self.smi or self._smi(),)
        rows = [
            f"device\t0000:c{it}:00.0\t0x068000\t0x22a3\t-\t-\t-\t-\t-\t-\tD0\tde10a322" for it in range(self.switches)
        ]
        bus = "\n".join(["probed", *rows]) + "\n"
        return tuple(Completed(exit_code=0, stdout=it) for it in (self.present, bus))

    def _smi(self) -> Completed:
        text = section("gpus", self.rows) + section("links", self.status, self.code)
        if self.first is not None:
            text += section("errors", self.first) + section("again", self.first if self.second is None else self.second)
        return Completed(exit_code=0, stdout=text)


def probed(host: Host, **arguments: Any) -> Any:
    return drive(nvlink.probe(build(nvlink.Args, arguments)), host)


BOOK = read_playbook(find_playbook("nvlink"), discover())


def concluded(host: Host, log: str = "", **arguments: Any) -> set[str]:
    """The findings but for infos; what each says can be filled in."""
    state = probed(host, **arguments)
    seen = kernel_conclusions(log)
    values = {it.name: getattr(state, it.name) for it in fields(state)}
    links = {name: value if isinstance(value, Unknown) else to_json(value) for name, value in values.items()}
    looks = {"links": links, "kernel": {it: seen[it] for it in ("sick_switches", "xids", "xid_groups", "open_needs")}}
    scope = Scope(inputs={"apart": "2s", "expect_links": 0}, host={"name": "h"}, run={}, states=looks, let=BOOK.let[""])
    present: set[str] = set()
    for rule in BOOK.findings:
        if present & set(rule.unless) or not (answer := evaluate(rule.when, scope)):
            continue
        assert not isinstance(answer, Unknown), (rule.id, answer)
        present.add(rule.id)
        assert say(rule.say, scope)
        assert all(render(it, scope) for it in rule.advise)
    return {it.id for it in BOOK.findings if it.id in present and it.severity != "info"}


WELL = status(18, heading=H0) + "\n" + status(18, heading=H1)
QUIET = errors(H0, l0_Replay_Errors=0, l0_CRC_Errors=0) + "\n" + errors(H1, l0_Replay_Errors=0)
BLACKWELL = [
    "l0_Tx_packets",
    "l0_Tx_bytes",
    "l0_Symbol_BER",
    "l0_FEC_Errors_-_0",
    "l0_Malformed_packet_Errors",
    "l0_Rx_Errors",
]


@every_row(
    ("host", "findings"),
    [
        pytest.param(Host(status=WELL, first=QUIET), set(), id="healthy"),
        pytest.param(Host(status=f"{H0}\n{H1}"), set(), id="boards without NVLink"),
        pytest.param(Host(status="NVML: Unable to retrieve NVLink information as all links are inActive", code=6), set(), id="no bridge"),
        pytest.param(Host(status=status(17, (3,), H0) + "\n" + status(18, heading=H1), first=QUIET), {"inactive"}, id="one down"),
        pytest.param(Host(status=status(0, tuple(range(18)), H0) + "\n" + status(18, heading=H1), first=QUIET), {"inactive"}, id="all of one GPU"),
        pytest.param(Host(status=status(14, (3, 4, 5, 6), H0) + "\n" + status(14, (3, 4, 5, 6), H1), first=QUIET), set(), id="a board that uses fewer"),
        pytest.param(Host(status=status(14, (3, 4, 5, 6), H0) + "\n" + status(14, (3, 4, 5, 6), H1), first=QUIET, switches=4), {"inactive"}, id="a switch is gone"),
        pytest.param(Host(status=WELL, first=QUIET, second=QUIET.replace("CRC Errors: 0", "CRC Errors: 7", 1)), {"growing"}, id="growing"),
        pytest.param(Host(status=WELL, first=QUIET.replace("CRC Errors: 0", "CRC Errors: 7", 1)), set(), id="some, long ago"),
        pytest.param(Host(status=WELL, first=QUIET.replace("CRC Errors: 0", "CRC Errors: 7", 1), second=QUIET), set(), id="cleared in between"),
    ],
)  # fmt: skip
def test_what_is_down_or_fails(host, findings):
    """Mutants: growth as a difference in either direction; switches left out; the majority left out."""
    assert concluded(host) == findings


def test_a_gpu_whose_heading_has_no_uuid_is_known_by_its_index():
    bare = WELL.replace(f" (UUID: {A})", "").replace(f" (UUID: {B})", "")
    assert probed(Host(status=bare, first=QUIET)).active == 36


def test_a_gpu_in_mig_mode_uses_no_nvlink():
    host = Host(status=f"{status(0, tuple(range(18)), H0)}\n{status(18, heading=H1)}", first=QUIET, switches=4)
    assert concluded(host) == {"inactive"}
    host.rows = host.rows.replace("Disabled", "Enabled", 1)
    assert concluded(host) == set()


@every_row(
    ("name", "counts"),
    [*((it, "Errors" in it and "FEC" not in it) for it in BLACKWELL), ("l0_Total_link_recovery_events", True),
     ("l0_Link_recovery_failed_events", True), ("l0_Tx_discards", True), ("l0_Effective_Errors", True),
     ("l0_Recovery_Errors", True), ("l0_Rx_bytes", False)],
)  # fmt: skip
def test_only_counters_of_faults_count(name, counts):
    """Mutant: every counter that grows."""
    two = (errors(H0, **{name: number}) + "\n" + errors(H0, l1_Replay_Errors=0) for number in (1, 9))
    first, second = two
    state = probed(Host(status=WELL, first=first, second=second))
    assert bool(state.growing) is counts
    assert (state.affected == ("0000:1a:00.0",)) is counts


def test_it_is_said_which_gpu_which_link_and_by_how_much():
    second = QUIET.replace("Link 0: CRC Errors: 0", "Link 0: CRC Errors: 7").replace(
        "Replay Errors: 0", "Replay Errors: 2", 1
    )
    state = probed(Host(status=WELL, first=QUIET, second=second))
    assert state.growing == ("GPU 0 (0000:1a:00.0) link 0: Replay Errors 0 to 2, CRC Errors 0 to 7",)


def test_a_gpu_that_nvidia_smi_does_not_list_is_not_known():
    host = Host(status=WELL, first=QUIET, present=Host.present + "bus 0000:9f:00.0\n")
    assert concluded(host) == {"not_known"}
    with pytest.raises(ProbeError, match="0000:9f:00"):
        nvlink.holds(nvlink.Args(), probed(host))


def test_links_whose_number_somebody_knows_are_held_against_it():
    host = Host(status=status(14, (3, 4, 5, 6), H0) + "\n" + status(14, (3, 4, 5, 6), H1), first=QUIET)
    assert concluded(host, expect_links=18) == {"inactive"}
    assert concluded(host, expect_links=14) == set()


@every_row(
    ("host", "why"),
    [
        (Host(status=WELL, first=None), "cannot be read"),
        (Host(status=WELL, first="Insufficient Permissions"), "cannot be read"),
    ],
)
def test_counters_that_cannot_be_read_are_unknown_never_zero(host, why):
    state = probed(host)
    assert isinstance(state.growing, Unknown)
    with pytest.raises(ProbeError, match=why):
        nvlink.holds(nvlink.Args(), state)


def test_links_that_are_not_told_are_unknown():
    state = probed(Host(status="Unable to determine the device handle: Unknown Error", code=255))
    assert isinstance(state.inactive, Unknown)
    assert isinstance(state.active, Unknown)


def test_a_driver_that_hangs_is_said():
    host = Host(smi=Completed(exit_code=None, timed_out=True, seconds=30, stdout=section("gpus", "")))
    assert concluded(host) == {"no_answer"}
    with pytest.raises(ProbeError, match="did not answer within 30 s"):
        nvlink.holds(nvlink.Args(), probed(host))


def test_it_holds_only_where_nothing_is_down_and_nothing_grows():
    assert isinstance(nvlink.holds(nvlink.Args(), probed(Host(status=WELL, first=QUIET))), Holds)
    down = Host(status=status(17, (3,), H0) + "\n" + status(18, heading=H1), first=QUIET)
    assert isinstance(nvlink.holds(nvlink.Args(), probed(down)), Fails)
    assert isinstance(probed(Host(present="probed\n")), Absent)


XID = "[  100.000000] NVRM: Xid (PCI:0000:1a:00): "
REGISTERS = "(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
LOADED = "[  200.000000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.65.06  Wed Aug 27"


@every_row(
    ("line", "findings"),
    [
        (f"{XID}74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6{REGISTERS}", {"link_fault"}),
        (f"{XID}149, NETIR_LINK_EVT Fatal XC0 i0 Link 14 (0x004505c6 0x00000000)", {"link_fault"}),
        (f"{XID}145, RLW_CTRL Nonfatal XC1 i0 Link 02 (0x0 0x0)", set()),
        (f"{XID}79, pid=1, name=x, GPU has fallen off the bus.", set()),
        (f"{XID}13, pid=7, name=python3, Graphics Exception: ESR 0x504f30=0xc13000e", set()),
        ("[  100.000000] nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", {"fatal_switch"}),
        ("[  100.000000] nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress PRIV error", {"recovered"}),
        (f"{XID}149, NETIR_LINK_EVT Fatal XC0 i0 Link 14 (0x004505c6 0x00000000)\n{LOADED}", set()),
    ],
)  # fmt: skip
def test_what_the_kernel_said_of_links_counts_while_it_is_open(line, findings):
    """Mutants: link_fault by xid_groups alone; with Xid 79."""
    assert concluded(Host(status=WELL, first=QUIET), line) == findings


@pytest.mark.parametrize("shell", each(SHELLS))
def test_the_counters_are_read_twice_and_only_where_a_link_is_up(tmp_path, shell):
    """The real script. Mutants: without the sleep; the counters asked for on every host."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        textwrap.dedent(f"""\
        #!/bin/sh
        echo "$*" >>{tmp_path}/calls
        case $* in
          *query-gpu*) echo '0, {A}, 00000000:1A:00.0, NVIDIA H100, Disabled';;
          *-s*) echo '{H0}'; printf '\\t Link 0: %s\\n' "$(cat {tmp_path}/speed)";;
          *-e*) echo '{H0}'; printf '\\t Link 0: Replay Errors: %s\\n' "$(grep -c -e '-e$' {tmp_path}/calls)";;
        esac
    """)
    )
    tool.chmod(tool.stat().st_mode | stat.S_IEXEC)
    command = nvlink.ask_nvlinks(build(nvlink.Args, {"apart": 0.2}))
    for speed, growing in {
        "26.562 GB/s": ("GPU 0 (0000:1a:00.0) link 0: Replay Errors 1 to 2",),
        "<inactive>": (),
    }.items():
        (tmp_path / "speed").write_text(speed)
        (tmp_path / "calls").write_text("")
        began = time.monotonic()
        (answer,) = Here(path=tmp_path, shell=SHELLS[shell]).run(command)
        assert probed(Host(smi=answer)).growing == growing
        assert (time.monotonic() - began >= 0.2) or not growing
    assert (tmp_path / "calls").read_text().count("nvlink") == 1
