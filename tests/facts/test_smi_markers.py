"""A GPU is idle and well only by numbers: any word in place of a value is a fault, but for models and modes that never say."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runbook.errors import ProbeError
from runbook.library.gpu.facts.model import GpuPresence, SmiReading
from runbook.library.gpu.facts.smi_output import FRAME
from runbook.library.gpu.facts.smi_query import CORE, OPTIONAL, read_gpus
from runbook.library.gpu.facts.utilisation import busy, complaints, idle, listed_on, unseen, wedged
from runbook.values.command import Completed
from runbook.values.types import Unknown
from tests.support.fake_nvidia_smi import gpu
from tests.support.tables import every_row

FIELDS = (*CORE, *OPTIONAL)
AGAIN = ("index", "uuid", "utilization.gpu")
MARKERS = (
    "[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[GPU is lost]", "[System is not in ready state]", "ERR!", "",
    "[Insufficient Permissions]", "[Not Found]", "Unknown Error",
)  # fmt: skip
NUMBERS = ("memory.used", "memory.total", "utilization.gpu", "temperature.gpu")


def answer(rows: list[dict[str, str]], again: list[dict[str, str]] | None = None, exit_code: int = 0) -> Completed:
    def section(name: str, fields: tuple[str, ...], of: list[dict[str, str]]) -> str:
        body = "".join(", ".join(row[field] for field in fields) + "\n" for row in of)
        return f"{FRAME} begin {name} {','.join(fields)}\n{body}\n{FRAME} end {exit_code}\n"

    text = section("gpus", FIELDS, rows) + section("again", AGAIN, rows if again is None else again)
    return Completed(exit_code=0, stdout=text)


def read(*rows: dict[str, str]) -> SmiReading:
    return read_gpus(answer(list(rows)))


def well(one) -> bool:
    """Whether everything that a playbook asks of a GPU would call it free and in order."""
    told = complaints(SmiReading(gpus=(one,)))
    return idle(one, 5) is True and wedged(one, 5, False, False) is False and not told


@every_row("column", NUMBERS)
@every_row("word", MARKERS)
@every_row("persistence", ["Enabled", "Disabled"])
def test_a_word_in_a_column_that_every_gpu_fills_is_a_fault_and_never_idle(column, word, persistence):
    row = gpu(0, memory_used="0") | {"persistence_mode": persistence, column: word}
    (one,) = read(row).gpus
    assert one.faults == (f"{column}: {word or 'empty'}",)
    assert isinstance(idle(one, 5), Unknown)
    assert not well(one)
    assert isinstance(wedged(one, 5, False, False), Unknown)


@every_row("word", ["[Unknown Error]", "ERR!", "[GPU is lost]", "[System is not in ready state]"])
@every_row("column", ["pstate", "compute_mode", "ecc.mode.current", "driver_version"])
def test_an_error_in_any_other_column_is_a_fault_too(column, word):
    (one,) = read(gpu(0) | {column: word}).gpus
    assert one.faults == (f"{column}: {word}",)
    assert not well(one)


def test_a_row_of_nothing_but_na_is_a_fault():
    (one,) = read(dict.fromkeys(FIELDS, "[N/A]") | {"index": "0", "uuid": gpu(0)["uuid"]}).gpus
    assert one.faults
    assert not well(one)


def test_a_fault_on_the_second_look_alone_is_one():
    rows = [gpu(0)]
    (one,) = read_gpus(answer(rows, [gpu(0) | {"utilization.gpu": "[Unknown Error]"}])).gpus
    assert one.faults == ("utilization.gpu: [Unknown Error]",)
    assert not well(one)


def test_where_nvidia_smi_fails_after_its_rows_there_was_no_second_look():
    (one,) = read_gpus(answer([gpu(0)], [], exit_code=255)).gpus
    assert isinstance(one.samples[1], Unknown)
    assert isinstance(idle(one, 5), Unknown)


BUS = ("0000:3b:00.0", "0000:5e:00.0", "0000:86:00.0", "0000:af:00.0")


def rows_at(*buses: str) -> SmiReading:
    return read(*(gpu(number) | {"pci.bus_id": f"0000{bus}".upper()} for number, bus in enumerate(buses)))


def test_a_gpu_on_the_bus_that_nvidia_smi_does_not_show_is_named():
    presence = GpuPresence(pci=4, on_bus=BUS, nodes=tuple(f"/dev/nvidia{n}" for n in range(4)))
    assert unseen(rows_at(*BUS), presence) == ()
    (said,) = unseen(rows_at(*BUS[:3]), presence)
    assert said == "nvidia-smi shows 3 of 4 GPUs on the PCI bus: 0000:af:00.0 is missing"


def test_a_container_is_given_a_part_of_the_bus_and_its_device_nodes_count():
    presence = GpuPresence(pci=4, on_bus=BUS, nodes=("/dev/nvidia0", "/dev/nvidia1"), container=True)
    assert unseen(rows_at(*BUS[:2]), presence) == ()
    (said,) = unseen(rows_at(BUS[0]), presence)
    assert said == "nvidia-smi shows 1 of 2 GPUs that have a device node"


def test_a_gpu_that_another_driver_has_is_not_missed():
    assert unseen(rows_at(*BUS[:3]), GpuPresence(pci=4, on_bus=BUS[:3])) == ()


def test_an_older_driver_says_so_in_its_status():
    status = f"{FRAME} begin status\nGPU 00000000:90:00.0\n    Drain and Reset Recommended : Yes\n\n{FRAME} end 0\n"
    done = answer([gpu(0)])
    (one,) = read_gpus(Completed(exit_code=0, stdout=done.stdout + status)).gpus
    assert one.waits_for_reset is True


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_mutated_answer_is_never_healthier_than_the_one_it_was_made_of(data):
    """Columns replaced by markers, rows dropped, lines interleaved, text cut off: no GPU becomes well by it."""
    rows = [
        gpu(number)
        | {"utilization.gpu": data.draw(st.sampled_from(["0", "3", "97"])), "memory.used": data.draw(st.sampled_from(["0", "40000"])),
           "persistence_mode": data.draw(st.sampled_from(["Enabled", "Disabled"]))}
        for number in range(data.draw(st.integers(1, 3)))
    ]  # fmt: skip
    before = read_gpus(answer(rows))
    good = {one.uuid for one in before.gpus if well(one)}
    text = answer(rows).stdout
    lines = text.split("\n")
    for _ in range(data.draw(st.integers(1, 4))):
        number = data.draw(st.integers(0, len(lines) - 1))
        kind = data.draw(st.sampled_from(["mark", "drop", "insert", "cut"]))
        if kind == "mark" and "GPU-" in lines[number]:
            parts = lines[number].split(", ")
            parts[data.draw(st.integers(1, len(parts) - 1))] = data.draw(st.sampled_from(MARKERS))
            lines[number] = ", ".join(parts)
        elif kind == "drop" and "GPU-" in lines[number]:
            lines[number] = ""
        elif kind == "insert":
            lines.insert(
                number + 1,
                data.draw(st.sampled_from(["Unable to determine the device handle for GPU", "WARNING: x, y"])),
            )
        elif kind == "cut" and FRAME not in lines[number]:
            lines[number] = lines[number][: data.draw(st.integers(0, max(0, len(lines[number]) - 1)))]
    cut = "\n".join(lines)[: data.draw(st.one_of(st.none(), st.integers(0, len(text))))]
    try:
        after = read_gpus(Completed(exit_code=0, stdout=cut))
    except ProbeError:
        return
    presence = GpuPresence(pci=len(rows), nodes=tuple(f"/dev/nvidia{n}" for n in range(len(rows))))
    whole = all(well(one) for one in after.gpus) and not after.errors and not unseen(after, presence)
    if whole and not any(busy(one, 5) is not False for one in after.gpus):
        assert good == {row["uuid"] for row in rows}, "a host with a GPU that was not well became well as a whole"


APPS = "gpu_uuid,pid,used_gpu_memory"


def listing(*rows: dict[str, str], apps: str) -> SmiReading:
    text = answer(list(rows)).stdout + f"{FRAME} begin apps {APPS}\n{apps}\n{FRAME} end 0\n"
    return read_gpus(Completed(exit_code=0, stdout=text))


OLD = {"name": "GeForce GTX 650", "utilization.gpu": "[Not Supported]"}


@every_row("said", ["[Not Supported]\n", "[N/A], [N/A], [N/A]\n", "", "No running processes found\n"])
def test_an_old_geforce_that_lists_no_processes_has_no_fault_and_who_is_on_it_is_not_known(said):
    """Mutants: the line taken for a complaint; the GPU taken for one without a process."""
    reading = listing(gpu(0) | OLD, gpu(1), apps=f"{said}{gpu(1)['uuid']}, 4711, 100\n")
    assert reading.errors == ()
    assert complaints(reading) == ()
    old, other = reading.gpus
    assert isinstance(listed_on(old, reading.apps), Unknown)
    assert listed_on(other, reading.apps) is True
    assert [one.pid for one in reading.apps if one.gpu_uuid == other.uuid] == [4711]
    alone = listing(gpu(0) | OLD, apps=said)
    assert alone.errors == ()
    assert isinstance(listed_on(alone.gpus[0], alone.apps), Unknown)


def test_a_gpu_of_today_that_lists_no_processes_is_complained_of():
    reading = listing(gpu(0), apps="[Not Supported]\n")
    assert reading.errors == ("[Not Supported]",)
    assert isinstance(reading.apps, Unknown)
