"""Every tool of ``runbook mcp`` on a lab host, under strace: it makes, writes, renames and removes nothing there."""

from __future__ import annotations

import pytest

from runbook import lab
from tests.support.mcp_client import conversation, value
from tests.support.strace import traced

pytestmark = [pytest.mark.real("strace", "lab", "sshd"), pytest.mark.slow]

LAB = r'"/run/lab/state/'
"""What the lab's nvidia-smi was asked, which it writes down; the real one does not."""
ARGUMENTS = {
    "find": {"error": "CUDA-capable device(s) is/are busy or unavailable"},
    "show": {"playbook": "zombie-gpu"},
    "diagnose": {"hosts": "all"},
    "plan": {"playbook": "zombie-gpu", "hosts": "all", "inputs": {"older_than": "0s"}},
}


@pytest.fixture
def practice(tmp_path):
    made = lab.up(lab.LabOptions(directory=tmp_path / "lab", faults=("gpu-01=leftovers+busy",)))
    yield made
    lab.down(made.directory)


def test_every_tool_leaves_nothing_on_a_host(practice, tmp_path):
    """Mutants: a tool ``apply``; a plan that carries out its steps."""
    hosts = [host for host in practice.hosts if host.name == "gpu-01"]
    with traced(hosts, tmp_path / "trace") as (seen, ports):
        text = practice.inventory.read_text()
        (host,) = hosts
        old, new = (f"ssh_host: {host.address}\n    ssh_port: {port}\n" for port in (host.port, ports[host.name]))
        assert old in text
        (tmp_path / "hosts.yaml").write_text(text.replace(old, new))

        async def talk(session):
            names = [tool.name for tool in (await session.list_tools()).tools]
            return {name: value(await session.call_tool(name, ARGUMENTS.get(name, {}))) for name in names}

        answers = conversation(tmp_path, talk)
    assert len(answers) == 6
    assert [host["host"] for host in answers["diagnose"]["hosts"]] == ["gpu-01"]
    assert answers["diagnose"]["hosts"][0]["verdict"] != "unreachable"
    assert answers["plan"]["hosts_that_would_change"] == 1
    assert "would change stop_leftovers" in answers["plan"]["text"]["untrusted_data"]
    assert seen.lines > 50, "strace saw the commands of the probes"
    assert seen.lasting(LAB) == []
