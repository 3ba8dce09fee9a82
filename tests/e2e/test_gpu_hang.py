"""A driver that hangs: named without asking it, and evidence kept that needs no driver."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tests.support.program import runbook

pytestmark = [pytest.mark.real("lab", "sshd")]


@pytest.fixture
def records(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("RUNBOOK_RECORDS", str(tmp_path / "records"))
    return tmp_path / "records"


def fetched(said, records: Path, host: str) -> dict[str, bytes]:
    """The files that a run has kept of *host*, by their names."""
    kept = [it for step in said.host(host)["steps"] for it in step["kept"]]
    found = {it["path"].rpartition("/")[2]: (records / it["path"]) for it in kept}
    assert all(stat.S_IMODE(it.stat().st_mode) == 0o600 for it in found.values())
    return {name: it.read_bytes() for name, it in found.items()}


def test_a_hang_is_named_without_a_word_to_the_driver_and_its_evidence_is_kept(practice, records):
    lab = practice("gpu-01=driver_hang", "gpu-02=leftovers")
    asked = lab.calls("gpu-01")
    said = lab.run("gpu-hang", "--dry-run", "-e", "watch=1s")
    assert said.host("gpu-02")["verdict"] == "healthy", said.out
    assert said.host("gpu-01")["verdict"] == "unresolved"
    found = said.finding("gpu-01", "hangs")
    assert found["status"] == "present"
    assert {it["name"] for it in found["evidence"]["blocked"]} == {"python3", "nv-hostengine", "dcgm-exporter"}
    assert "likely held by python3 (pid " in found["say"]
    assert "itself in state D" in found["say"]
    assert said.finding("gpu-01", "firmware")["status"] != "present", "what follows from the hang is folded into it"
    shown = lab.run("gpu-hang", "--dry-run", "-e", "watch=1s", output="console").out
    assert len(shown.splitlines()) <= 50

    plan = lab.run("node-evidence", "--dry-run", hosts="gpu-02")
    assert plan.host("gpu-02")["verdict"] == "planned", plan.out
    assert not list(records.glob("*.files"))
    kept = lab.run("node-evidence", "--yes")
    assert kept.host("gpu-02")["verdict"] == "healthy", kept.out
    assert kept.writes() == []
    files = fetched(kept, records, "gpu-02")
    assert {"ps.txt", "dmesg.txt", "nvidia-smi.xml", "nvidia-bug-report.log"} <= files.keys()
    assert b"End of NVIDIA bug report log file" in files["nvidia-bug-report.log"]
    assert b"WANDB_API_KEY=***" in files["nvidia-bug-report.log"]
    assert kept.step("gpu-02", "bmc")["status"] == "skipped"
    assert lab.exec("gpu-02", "ls -A /var/tmp | grep runbook") == ""
    assert kept.host("gpu-01")["verdict"] == "unresolved"
    assert fetched(kept, records, "gpu-01").keys() >= {"ps.txt", "dmesg.txt"}
    assert "nvidia-smi.xml" not in fetched(kept, records, "gpu-01")
    assert lab.calls("gpu-01") == asked, "the driver that hangs was asked nothing"
    shown = runbook("history", "show", "last", "gpu-02").out
    assert "nvidia-bug-report.log" in shown
    assert runbook("history", "verify").code == 0


@pytest.mark.soak
def test_the_holder_of_the_lock_is_ended_when_it_is_asked_for_and_not_in_state_d_itself(practice):
    lab = practice("gpu-01=lock_held", "gpu-02=driver_hang", "gpu-03=lock_held+pod")
    outside = lab.run("gpu-hang", "--yes", "-e", "watch=1s", "-e", "end_owner=true", hosts="gpu-03")
    assert (outside.host("gpu-03")["verdict"], outside.writes()) == ("unresolved", []), "its numbers are the machine's"
    assert "machine outside" in outside.finding("gpu-03", "hangs")["evidence"]["to_be_ended"]
    words = ("-e", "watch=1s", "-e", "log_pids=host", "--yes")
    held = lab.run("gpu-hang", *words, hosts="gpu-01,gpu-02")
    assert [it["verdict"] for it in held.document["hosts"]] == ["unresolved"] * 2, (
        "nothing is ended unless it is asked for"
    )
    assert held.writes() == []
    said = lab.run("gpu-hang", *words, "-e", "end_owner=true", hosts="gpu-01,gpu-02")
    assert said.host("gpu-01")["verdict"] == "resolved", said.out
    assert [it["command"] for it in said.step("gpu-01", "end_owner")["victims"]] == ["./python3 holder --lock"]
    assert said.host("gpu-02")["verdict"] == "unresolved", "its holder is in state D itself"
    assert said.step("gpu-02", "end_owner")["commands"] == []
    again = lab.run("gpu-hang", *words, "-e", "end_owner=true", hosts="gpu-01")
    assert (again.host("gpu-01")["verdict"], again.writes()) == ("healthy", [])


def test_a_line_that_is_cut_half_way_leaves_no_half_file(practice, records, tmp_path):
    """The session is ended on the host in the middle of the output, as when a network goes away."""
    lab = practice("gpu-01=healthy", embedded=True)
    book = tmp_path / "cut.yaml"
    text = (
        "seq 1 200000; kill -9 $(ps -eo pid=,args= | awk '/runbook.lab.ssh_server/ && !/awk/ { print $1 }'); sleep 20"
    )
    args = {"argv": ["sh", "-c", text], "save_as": "big.txt", "most": "4MiB", "own_directory": True}
    step = {"id": "big", "fetch": args}
    book.write_text(json.dumps({"name": "cut", "about": "x", "remediate": [step]}))
    said = lab.run(str(book), "--yes")
    assert said.step("gpu-01", "big")["status"] in ("unknown", "unreachable"), said.out
    assert said.step("gpu-01", "big")["kept"] == []
    assert not list(records.glob("*.files/*/*"))
