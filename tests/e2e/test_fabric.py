"""fabric-manager, nvlink and mig-layout on hosts of a lab: the cause, what is done, and what is left alone."""

from __future__ import annotations

import pytest

from runbook import lab
from tests.support.program import Practice

pytestmark = [pytest.mark.real("lab", "sshd")]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    asked = ("stopped=fabric_down", "healthy=healthy", "link=link_down", "divided=mig")
    it = lab.up(lab.LabOptions(directory=tmp_path_factory.mktemp("fabric") / "lab", faults=asked))
    yield Practice(it)
    lab.down(it.directory)


@pytest.mark.soak
def test_a_fabric_manager_that_does_not_run_is_started_and_the_gpus_register(made):
    """Mutants: fabric-manager without its step start; verify that does not ask for the fabric."""
    shown = made.run("fabric-manager", "--dry-run", hosts="stopped,healthy")
    assert shown.writes() == []
    assert "start nvidia-fabricmanager.service" in shown.step("stopped", "start")["planned"]
    assert "2 GPUs are not in the NVLink fabric" in shown.finding("stopped", "stopped")["say"]
    done = made.run("fabric-manager", "--yes", hosts="stopped,healthy")
    assert {it["host"]: it["verdict"] for it in done.document["hosts"]} == {"stopped": "resolved", "healthy": "healthy"}
    assert done.step("stopped", "registered")["status"] == "ok"
    again = made.run("fabric-manager", "--yes", hosts="stopped")
    assert (again.host("stopped")["verdict"], again.writes()) == ("healthy", [])
    # It runs, and the GPUs do not register: a restart only on demand, and only while nobody holds a GPU.
    made.exec("stopped", ": >/run/lab/state/fabric_stuck")
    left = made.run("fabric-manager", "--yes", hosts="stopped")
    assert (left.host("stopped")["verdict"], left.writes()) == ("unresolved", [])
    assert "-e restart=true" in " ".join(left.finding("stopped", "not_registered")["advise"])
    made.exec("stopped", "exec 3</dev/nvidia0; setsid sleep 600 >/dev/null 2>&1 & echo $! >/run/lab/held")
    held = made.run("fabric-manager", "--yes", "-e", "restart=true", hosts="stopped")
    assert (held.host("stopped")["verdict"], held.writes()) == ("unresolved", [])
    assert "sleep 60" in held.finding("stopped", "held")["say"]
    made.exec("stopped", "kill $(cat /run/lab/held)")
    shown = made.run("fabric-manager", "--dry-run", "-e", "restart=true", hosts="stopped")
    assert "restart nvidia-fabricmanager.service" in shown.step("stopped", "restart")["planned"]


def test_a_link_that_is_down_and_one_that_fails_are_named_and_nothing_is_sent(made):
    said = made.run("nvlink", "--yes", "-e", "apart=1s", hosts="link,healthy")
    assert said.writes() == []
    assert {it["host"]: it["verdict"] for it in said.document["hosts"]} == {"link": "unresolved", "healthy": "healthy"}
    assert "GPU 0 (0000:1a:00.0): link 3 inactive, 17 active" in said.finding("link", "inactive")["say"]
    assert "GPU 0 (0000:1a:00.0) link 5: Replay Errors" in said.finding("link", "growing")["say"]


@pytest.mark.soak
def test_instances_that_are_lost_are_made_and_others_only_replaced_on_demand_and_while_nobody_holds_them(made):
    """Mutants: mig_build.sh with -dgi before -dci; mig-layout without its step divide."""
    halves = ("-e", 'layout={"0": ["3g.40gb", "3g.40gb"]}')
    assert made.run("mig-layout", "--yes", hosts="divided,healthy").writes() == []
    shown = made.run("mig-layout", "--dry-run", *halves, hosts="divided")
    assert shown.writes() == []
    assert "make 2 x 3g.40gb" in shown.step("divided", "divide")["planned"]
    assert "without the wanted instances" in shown.finding("divided", "lost")["say"]
    done = made.run("mig-layout", "--yes", *halves, hosts="divided")
    assert (done.host("divided")["verdict"], done.step("divided", "divided")["status"]) == ("resolved", "ok")
    assert made.exec("divided", "nvidia-smi -L").count("MIG 3g.40gb") == 2
    again = made.run("mig-layout", "--yes", *halves, hosts="divided")
    assert (again.host("divided")["verdict"], again.writes()) == ("healthy", [])
    other = ("-e", 'layout={"0": ["2g.20gb", "1g.10gb"]}')
    left = made.run("mig-layout", "--yes", *other, hosts="divided")
    assert (left.host("divided")["verdict"], left.writes()) == ("unresolved", [])
    read = "read -r one two </run/lab/state/minors; exec 3</dev/nvidia$one"
    made.exec("divided", f"{read}; setsid sleep 600 >/dev/null 2>&1 & echo $! >/run/lab/held")
    held = made.run("mig-layout", "--yes", *other, "-e", "rebuild=true", hosts="divided")
    assert (held.host("divided")["verdict"], held.writes()) == ("unresolved", [])
    assert "is held by a process" in held.step("divided", "divide")["why"]
    made.exec("divided", "kill $(cat /run/lab/held)")
    again = made.run("mig-layout", "--yes", *other, "-e", "rebuild=true", hosts="divided")
    assert again.host("divided")["verdict"] == "resolved"
    changes = [it.split()[1] for it in made.calls("divided") if it.startswith(("mig -d", "mig -c"))]
    assert changes == ["-cgi", "-dci", "-dgi", "-cgi"]


@pytest.mark.soak
def test_what_an_engineer_reads_is_one_screen(made):
    for host, playbook in {"stopped": "fabric-manager", "link": "nvlink", "divided": "mig-layout"}.items():
        lines = made.run(playbook, "--dry-run", hosts=host, output="console").out.splitlines()
        screen = sum(1 + len(line) // 120 for line in lines)
        assert screen <= 50, (playbook, screen)
