"""Very many hosts, and very many mistakes."""

from __future__ import annotations

from runbook.errors import MOST_MISTAKES, ConfigError, Problem
from runbook.inventory.groups import formed
from runbook.values.inventory import Host
from tests.support.program import runbook


class Counting(str):
    """A name that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counting.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_ten_thousand_mistakes_are_fifty_and_a_number(tmp_path):
    """Mutants: errors.py telling every one."""
    lines = "".join(f"  gpu-{it}: {{transport: local, ssh_port: x}}\n" for it in range(500))
    (tmp_path / "hosts.yaml").write_text(f"hosts:\n{lines}")
    said = runbook("hosts", "-i", "hosts.yaml", cwd=tmp_path).err.splitlines()
    assert len(said) == MOST_MISTAKES + 1
    assert said[-1] == "runbook: ... and 450 more mistakes"
    assert len(str(ConfigError(*[Problem(message="x")] * MOST_MISTAKES)).splitlines()) == MOST_MISTAKES


def test_groups_are_formed_in_a_time_that_grows_with_the_hosts():
    """Mutants: groups.py looking for each host in tuples of names."""
    compared = []
    for many in (200, 400):
        Counting.compared = 0
        made, _ = formed([Host(name=Counting(f"gpu-{it}"), vars={"role": "training"}) for it in range(many)], ())
        assert len(made) == many
        compared.append(Counting.compared)
    assert compared[1] < 3 * max(compared[0], 200)
