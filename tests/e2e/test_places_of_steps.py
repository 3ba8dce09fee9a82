"""`on` is resolved for every command: from an input, and with what is wrong in it said before anything begins."""

from __future__ import annotations

import pytest

from runbook.commands.step_resolution import place
from runbook.errors import ConfigError
from runbook.values.inventory import Host, Inventory
from tests.support.program import runbook

MONITOR = """\
name: monitor
about: Watches one host from another.
hosts: all
inputs:
  from: {about: The host that asks., type: string, default: here}
diagnose:
  - {id: there, on: "{{ inputs.from }}", files: {paths: [/etc/passwd]}}
"""
INVENTORY = "hosts: {here: {transport: local}, there: {transport: local}}\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "playbooks").mkdir(mode=0o755)
    (tmp_path / "playbooks" / "monitor.yaml").write_text(MONITOR)
    (tmp_path / "hosts.yaml").write_text(INVENTORY)
    return tmp_path


@pytest.mark.parametrize("command", [("monitor", "--once"), ("run", "monitor", "--dry-run")])
def test_a_step_s_place_may_come_from_an_input(folder, command):
    """Mutant: order_for without ``with_places``."""
    where = ("-i", "hosts.yaml", "--hosts", "there", "--output", "json")
    said = runbook(*command, *where, cwd=folder)
    assert (said.code, said.step("there", "there")["status"]) == (0, "ok"), said.out + said.err
    wrong = runbook(*command, *where, "-e", "from=her", cwd=folder)
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.startswith(
        "runbook: playbooks/monitor.yaml:7:5: on: no host and no group is called 'her' (did you mean here?)"
    )


def test_a_place_that_is_not_there_is_an_error_with_its_name():
    inventory = Inventory(hosts=(Host(name="gpu-01"),))
    assert place("gpu-01", inventory).name == "gpu-01"
    assert place("controller", inventory).transport == "local"
    with pytest.raises(ConfigError, match=r"on: no host is called 'gpu-1' \(did you mean gpu-01\?\)"):
        place("gpu-1", inventory)
