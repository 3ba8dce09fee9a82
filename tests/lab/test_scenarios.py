"""The hosts and inputs that each playbook is practised with fit the playbook, and `lab run` alone is enough."""

from __future__ import annotations

import re
import socket
import subprocess
import sys

import pytest

from runbook import lab
from runbook.commands.input_files import library, read_playbook
from runbook.lab import cluster_leader as leader_of_lab
from runbook.lab.faults import hosts_of
from runbook.language.inputs import resolve_inputs
from runbook.plugins import discover
from tests.support.program import runbook
from tests.support.tables import every_row
from tests.support.waiting import until

HOST = lab.LabHost(name="leader", address="127.9.9.9", port=2, faults=("leader",))


@every_row("name", lab.SCENARIOS)
def test_a_scene_fits_its_playbook(name):
    scene = lab.SCENARIOS[name]
    playbook = read_playbook(library() / f"{name}.yaml", discover())
    assert len(hosts_of(scene.hosts)) == len(scene.hosts)
    assert resolve_inputs(playbook, lab.inputs_of(scene, [HOST]))
    required = {it.name for it in playbook.inputs if it.required}
    assert required <= set(scene.inputs)


def test_a_leader_is_named_by_its_address_and_only_where_there_is_one():
    scene = lab.SCENARIOS["stuck-node"]
    assert lab.inputs_of(scene, [HOST])["url"] == "http://127.9.9.9:8770"
    assert not {"leader", "url"} & set(lab.inputs_of(scene, []))
    assert "older_than" in lab.inputs_of(scene, [])


def test_the_leader_reads_no_body_that_is_too_long_or_has_no_length(tmp_path):
    """Mutants: cluster_leader.py without ``MAX_BODY_BYTES``; without ``isdigit``."""
    (tmp_path / "leader.json").write_text('{"role": "leader", "leader_id": "lead", "fails": 0}')
    (tmp_path / "peers.json").write_text("{}")
    leader = subprocess.Popen([sys.executable, "-m", "runbook.lab.cluster_leader", "127.9.9.9", "lead", str(tmp_path)])
    try:
        until(lambda: leader.poll() is not None or (tmp_path / "leads").exists())
        assert leader.poll() is None
        for length in (str(leader_of_lab.MAX_BODY_BYTES + 1), "-1", "1" * 5000, "x"):
            with socket.create_connection(("127.9.9.9", leader_of_lab.PORT), timeout=60) as line:
                line.sendall(f"POST /admin/reset_node_jobs HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{{".encode())
                assert b" 413 " in line.recv(1000), length
    finally:
        leader.kill()
        leader.wait()


@pytest.mark.real("lab", "sshd")
def test_a_playbook_is_practised_without_another_word_and_ones_own_values_win(tmp_path):
    said = runbook("lab", "run", "raise-timeouts", "--dir", str(tmp_path / "lab"), "--yes", "-e", "request_retries=7")
    assert "gpu-01: resolved" in said.out, said.out + said.err
    assert "request_retries to 7" in said.out
    assert re.search(r"inputs for this lab, unless you give others: -e '?configs=", said.err)
    assert not (tmp_path / "lab").exists()


def test_a_mistake_is_told_before_a_lab_is_started(tmp_path):
    said = runbook("lab", "run", "raise-timeout", "--dir", str(tmp_path / "lab"))
    assert said.code == 2
    assert "did you mean raise-timeouts?" in said.err
    said = runbook("lab", "up", "--for", "raise-timeout", "--dir", str(tmp_path / "lab"))
    assert said.code == 2
    assert "there is no lab for 'raise-timeout'" in said.err
    assert not (tmp_path / "lab").exists()
