"""Busy, idle and wedged each have three answers, and Unknown is none of the other two."""

from __future__ import annotations

import pytest

from runbook.library.fabric.facts.nvlink import Links, obstacle, together
from runbook.library.gpu.facts.device_users import User, Users, ask_users, read_users
from runbook.library.gpu.facts.model import UNLISTED, ComputeProcess, GpuPresence, SmiReading
from runbook.library.gpu.facts.smi_query import ask_presence, read_presence
from runbook.library.gpu.facts.utilisation import busy, complaints, idle, listed_on, selected, used_by_unseen, wedged
from runbook.values.command import Completed
from runbook.values.types import Unknown
from tests.facts.gpu_values import seen
from tests.support.fake_nvidia_smi import uuid
from tests.support.probe_driver import Here
from tests.support.tables import every_row

DARK = Unknown(why="nvidia-smi prints ERR!")


@every_row(
    ("samples", "is_busy", "is_idle"),
    [
        ((0.0, 0.0), False, True),
        ((5.0, 5.0), False, True),
        ((6.0, 90.0), True, False),
        ((90.0, 0.0), False, False),
        ((DARK, 0.0), False, DARK),
        ((DARK, 90.0), DARK, False),
        ((DARK, DARK), DARK, DARK),
        ((90.0, Unknown(why="no second probe")), Unknown(why="no second probe"), False),
    ],
)
def test_busy_is_both_looks_and_idle_is_both_looks(samples, is_busy, is_idle):
    assert busy(seen(*samples), 5) == is_busy
    assert idle(seen(*samples), 5) == is_idle


def test_a_percentage_that_only_the_look_itself_caused_is_no_work():
    started = seen(100.0, 100.0, persistence=False, memory_used=0.0)
    assert (busy(started, 5), idle(started, 5)) == (False, True)
    assert busy(seen(100.0, 100.0, persistence=False, memory_used=700.0), 5) is True
    assert busy(seen(100.0, 100.0, persistence=True, memory_used=0.0), 5) is True


NO_HOLDER = Unknown(why="it needs root")


@every_row(
    ("gpu", "held", "listed", "answer"),
    [
        (seen(90.0, 90.0), False, False, True),
        (seen(90.0, 90.0), True, False, False),
        (seen(90.0, 90.0), False, True, False),
        (seen(90.0, 90.0), NO_HOLDER, False, NO_HOLDER),
        (seen(90.0, 90.0), False, NO_HOLDER, NO_HOLDER),
        (seen(90.0, 90.0), NO_HOLDER, True, False),
        (seen(0.0, 0.0), False, False, False),
        (seen(0.0, 0.0), NO_HOLDER, NO_HOLDER, False),
        (seen(DARK, DARK), False, False, DARK),
        (seen(DARK, DARK), True, False, False),
        (seen(0.0, 0.0, requires_reset=True), True, True, True),
        (seen(0.0, 0.0, requires_reset=DARK), False, False, False),
        (seen(90.0, 90.0, requires_reset=DARK), False, False, True),
    ],
)
def test_wedged_is_a_reset_that_the_driver_wants_or_work_for_nobody(gpu, held, listed, answer):
    assert wedged(gpu, 5, held, listed) == answer


@every_row(("memory", "answer"), [(0.0, False), (600.0, False), (40_000.0, None), (DARK, None)])
def test_a_gpu_that_never_says_how_busy_it_is_counts_as_unused_only_when_it_is_empty(memory, answer):
    told = Unknown(why="MIG: the driver does not say")
    verdict = wedged(seen(told, told, memory_used=memory, untold=("utilization.gpu",)), 5, False, False)
    assert verdict is answer if answer is not None else isinstance(verdict, Unknown)


def test_a_process_listed_on_no_gpu_may_be_on_any():
    app = ComputeProcess(gpu_uuid="", pid=7, name="x", memory_mib=DARK)
    assert isinstance(listed_on(seen(0.0), (app,)), Unknown)
    assert listed_on(seen(0.0), ()) is False
    assert listed_on(seen(0.0), (ComputeProcess(gpu_uuid=uuid(0), pid=7, name="x", memory_mib=1.0),)) is True
    assert listed_on(seen(0.0), (ComputeProcess(gpu_uuid=uuid(5), pid=7, name="x", memory_mib=1.0),)) is False


def test_a_process_whose_pid_is_hidden_makes_it_unknown_who_uses_a_gpu():
    """Mutants: ``used_by_unseen`` without the hidden pid; with that of a model of which none are listed."""
    hidden = Unknown(why="[Insufficient Permissions]")

    def app(pid: object, name: str = "") -> ComputeProcess:
        return ComputeProcess(gpu_uuid=uuid(0), pid=pid, name=name, memory_mib=hidden)

    for held, pid, answer in (
        (False, hidden, None),
        (True, hidden, False),
        (False, UNLISTED, False),
        (False, 4711, True),
    ):
        seen_use = used_by_unseen(seen(0.0, memory_used=4.0), held, (app(pid),), all_processes=True)
        assert (None if isinstance(seen_use, Unknown) else seen_use) is answer


def test_a_list_names_what_is_known_and_is_unknown_only_when_it_would_be_empty():
    one, other = seen(90.0, 90.0), seen(DARK, DARK, uuid=uuid(1))
    assert selected((one, other), lambda it: busy(it, 5)) == (uuid(0),)
    assert selected((other,), lambda it: busy(it, 5)) == DARK
    assert selected((), lambda it: busy(it, 5)) == ()


def test_what_a_reset_cannot_mend_is_a_complaint():
    broken = seen(0.0, recovery_action="Reboot", remap_failed=True)
    told = complaints(SmiReading(gpus=(broken, seen(0.0, recovery_action="Reset")), errors=("infoROM is corrupted",)))
    assert len(told) == 3
    assert "Reboot" in told[1]


def users(*held: tuple[int, str, int], blind: str = "", minors=None, nodes=2) -> Users:
    by_number: dict[int, tuple[User, ...]] = {}
    for pid, name, number in held:
        by_number[number] = (*by_number.get(number, ()), User(pid=pid, name=name))
    table = {"0000:90:00.0": 0, "0000:91:00.0": 1} if minors is None else minors
    presence = GpuPresence(pci=2, nodes=tuple(f"/dev/nvidia{it}" for it in range(nodes)), minors=table)
    return Users(by_number=by_number, blind=blind, presence=presence)


SECOND = seen(0.0, index=1, uuid=uuid(1), bus_id="0000:91:00.0")


@every_row(
    ("held", "on_0", "on_1"),
    [
        ((), (), ()),
        (((71, "python3", 0),), ("pid 71 (python3)",), ()),
        (((71, "python3", 1), (9, "my tool: x", 1)), (), ("pid 71 (python3)", "pid 9 (my tool: x)")),
        (((71, "python3", 10),), (), ()),
        (((71, "nvidia-persiste", 0), (72, "nvidia-smi", 0)), (), ()),
        (((71, "nv-hostengine", 0),), ("pid 71 (nv-hostengine)",), ()),
    ],
)
@every_row("minors", [None, {}])
def test_who_has_a_device_open_is_who_stands_in_the_way(held, on_0, on_1, minors):
    known = users(*held, minors=minors)
    assert (known.of(seen(0.0)), known.of(SECOND)) == (on_0, on_1)


def test_the_drivers_own_table_says_which_node_is_whose():
    crossed = users((71, "python3", 0), minors={"0000:90:00.0": 1, "0000:91:00.0": 0})
    assert (crossed.held(seen(0.0)), crossed.held(SECOND)) == (False, True)


def test_a_daemon_that_only_watches_does_no_work():
    assert users((71, "nv-hostengine", 0)).held(seen(0.0)) is False
    assert users((71, "python3", 0)).held(seen(0.0)) is True


def test_a_gpu_whose_node_is_not_known_is_free_only_when_every_node_is():
    assert users(minors={"0000:aa:00.0": 0}).held(seen(0.0)) is False
    assert isinstance(users((71, "python3", 0), minors={"0000:aa:00.0": 0}).held(seen(0.0)), Unknown)
    assert isinstance(users((71, "python3", 0), minors={}, nodes=0).held(seen(0.0)), Unknown)


def test_a_process_that_may_not_be_looked_at_makes_holding_unknown():
    known = users((71, "python3", 1), blind="what pid 5 (x) has open could not be inspected")
    assert isinstance(known.held(seen(0.0)), Unknown)
    assert known.held(SECOND) is True


PRIVATE = r"""
mount -t tmpfs none /dev && mknod /dev/null c 1 3 && mknod /dev/urandom c 1 9 || exit 9
: >/dev/nvidia0; : >/dev/nvidia1; : >/dev/nvidiactl
sleep 60 3</dev/nvidia0 4</dev/nvidiactl & holder=$!
until [ "$(cat /proc/$holder/comm)" = sleep ]; do sleep 0.01; done
dash "$@"; code=$?
kill $holder; exit $code
"""


@pytest.mark.real("lab")
def test_a_process_that_really_has_a_node_open_is_seen():
    here = Here(shell=("unshare", "--mount", "--propagation", "private", "dash", "-c", PRIVATE, "sh"))
    present, walked = here.run(ask_presence(), ask_users())
    known = read_users(walked, read_presence(present))
    assert [it.name for it in known.by_number[0]] == ["sleep"]
    assert set(known.by_number) == {0}
    assert known.presence.nodes == ("/dev/nvidia0", "/dev/nvidia1")


def test_a_walk_that_did_not_end_knows_nothing():
    presence = GpuPresence(pci=1)
    for done in (Completed(exit_code=None, timed_out=True), Completed(exit_code=1), Completed(exit_code=0, stdout="x")):
        assert isinstance(read_users(done, presence).of(seen(0.0)), Unknown)


def linked(*uuids: str, kind: float | Unknown = 9.0, switches: bool = True, manager: bool = True) -> Links:
    return Links(
        linked=uuids, capability={uuid(at): kind for at in range(8)}, switches=switches, fabric_manager=manager
    )  # fmt: skip


ONE, TWO = seen(0.0), seen(0.0, uuid=uuid(1))


@every_row(
    ("links", "gpus", "refused", "groups"),
    [
        (linked(), (ONE,), False, 1),
        (linked(uuid(0), uuid(1)), (ONE,), False, 1),
        (linked(uuid(0), uuid(1), kind=8.0), (ONE,), False, 1),
        (linked(uuid(0), uuid(1), kind=8.0, manager=False), (ONE,), True, 1),
        (linked(uuid(0), uuid(1), kind=8.0, manager=False), (ONE, TWO), False, 1),
        (linked(uuid(0), uuid(1), kind=8.0, switches=False, manager=False), (ONE, TWO), False, 2),
        (linked(uuid(0), uuid(1), kind=7.0), (ONE,), True, 1),
        (linked(uuid(0), uuid(1), kind=7.0), (ONE, TWO), False, 1),
        (linked(uuid(0), uuid(1), kind=DARK), (ONE,), True, 1),
        (linked(uuid(1), kind=DARK), (ONE,), False, 1),
        (Links(linked=DARK, capability={}, switches=True, fabric_manager=True), (ONE, TWO), True, 1),
        (Links(linked=DARK, capability={uuid(0): 9.0}, switches=True, fabric_manager=False), (ONE,), False, 1),
    ],
)
def test_nvlink_peers_are_reset_together_where_the_vendor_says_so(links, gpus, refused, groups):
    assert bool(obstacle(gpus, links)) is refused
    assert len(together(gpus, links)) == groups
