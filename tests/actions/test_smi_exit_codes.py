"""nvidia-smi's exit codes that leave it usable end no query, and what was not asked is never called not reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from runbook.codec import to_json
from runbook.library.fabric import nvlink
from runbook.library.fabric.facts.nvlink import ask_links, read_links
from runbook.library.gpu import gpu_health
from runbook.library.gpu.facts.smi_output import REFUSED, USABLE
from runbook.library.gpu.facts.smi_query import ask_gpus, read_gpus
from runbook.values.types import Unknown
from tests.support.data_readers import LoadedDriver
from tests.support.fake_nvidia_smi import KNOWN, Pretended, calls, gpu, plant, uuid
from tests.support.probe_driver import Here, drive

LINKS = f"GPU 0: NVIDIA H100 (UUID: {uuid(0)})\n\t Link 0: 26.562 GB/s\n"
BROKEN = 255
OLD = Pretended(
    fields=frozenset(KNOWN) - {"gpu_recovery_action", "fabric.state", "fabric.status"},
    status="GPU 00000000:90:00.0\n    Reset Required : No\n",
)
"""A driver that refuses the query for all columns, and that for all of its health: it is asked in many calls."""


def looked(pretended: Pretended, folder: Path) -> gpu_health.State:
    root = plant(folder / "root", gpus=1)
    state = drive(gpu_health.probe(gpu_health.Args()), LoadedDriver(path=pretended.install(folder / "bin"), root=root))
    assert isinstance(state, gpu_health.State)
    return state


@pytest.mark.parametrize("code", USABLE)
@pytest.mark.parametrize("driver", [Pretended(), OLD], ids=["new", "old"])
def test_a_code_of_some_gpu_ends_no_query(driver, code, tmp_path):
    """Mutants: any `usable` of smi_query.sh that takes fewer codes."""
    plain, coded = (looked(replace(driver, exit_code=one), tmp_path / str(at)) for at, one in enumerate((0, code)))
    if code == REFUSED:  # nothing is believed of a refused query
        assert isinstance(coded.need_reset, Unknown) or coded.gpus[0].verdict != "healthy"
        return
    assert calls(tmp_path / "0/bin") == calls(tmp_path / "1/bin")
    assert coded.health == plain.health
    assert coded.not_checked == plain.not_checked == ()
    assert coded.gpus[0].verdict == ("needs service" if code == 14 else "healthy")


@pytest.mark.parametrize("code", [14, BROKEN])
@pytest.mark.parametrize("at", range(1, 30))
def test_what_was_not_asked_is_not_called_not_reported(at, code, tmp_path):
    """Mutants: not_answered that says *refused* of what no query named; `needs_reset` that is silent without `-q`."""
    state = looked(replace(OLD, codes={at: code}), tmp_path)
    assert "does not report" not in " ".join(state.not_checked)
    assert "does not support the field" not in " ".join(state.not_checked)
    asked = len(calls(tmp_path / "bin"))
    if code == 14 or asked < at:
        assert state.not_checked == ()
    elif not isinstance(state.need_reset, Unknown) and state.gpus[0].verdict != "healthy":
        assert "exit code 255" in " ".join(state.not_checked)


def test_a_query_that_fails_leaves_the_rest_unknown_with_the_reason(tmp_path):
    state = looked(replace(OLD, codes={4: BROKEN}), tmp_path)  # all columns, the core, and the second of the others
    assert state.gpus[0].verdict == "unknown"
    said = dict(it.split(": ", 1) for it in state.not_checked)
    assert said["uncorrected memory errors"] == (
        "nvidia-smi was not asked for it, as a query failed (nvidia-smi: exit code 255)"
    )


@pytest.mark.parametrize("code", [0, 6, 14, 15])
def test_links_and_processes_are_read_with_each_of_them(code, tmp_path):
    """Mutants: 0 alone in nvlink.py of facts and of actions; an infoROM's warning for a reason to know no processes."""
    here = Here(
        path=Pretended(exit_code=code, links=LINKS).install(tmp_path / "bin"), root=plant(tmp_path / "r", gpus=1)
    )
    assert read_links(drive(one(ask_links()), here)).linked == (uuid(0),)
    state = drive(nvlink.probe(nvlink.Args(apart=0)), here)
    assert (to_json(state.active), to_json(state.smi)) == (1, "answers")
    apps = read_gpus(drive(one(ask_gpus(apps=True)), here)).apps
    assert apps == () if code in (0, 14) else isinstance(apps, Unknown)


def test_a_gpu_whose_links_are_left_out_is_not_one_without_links(tmp_path):
    """Mutant: any answer with a usable code for a whole one."""
    two = Pretended(gpus=[gpu(0), gpu(1)], exit_code=15, links=LINKS)
    here = Here(path=two.install(tmp_path / "bin"), root=plant(tmp_path / "r", gpus=2))
    assert isinstance(read_links(drive(one(ask_links()), here)).linked, Unknown)
    assert isinstance(drive(nvlink.probe(nvlink.Args(apart=0)), here).active, Unknown)


def one(command):
    """A probe that sends *command* alone."""
    return (yield command)


def test_the_scripts_know_no_other_list_of_codes():
    """Mutant: a script with a list of its own."""
    scripts: Mapping[Path, str] = {it: it.read_text() for it in Path("engine").rglob("*.sh")}
    own = [str(path) for path, text in scripts.items() if "$rc in 0|" in text or '"$rc" = 0' in text]
    assert own == []
