"""Hosts that are given by their addresses, where there is no inventory, and where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from runbook.commands.continuing import inventories_again, inventory_again
from runbook.commands.input_files import read_inventory
from runbook.commands.options import Choosing
from runbook.commands.sources import inventory_for
from runbook.errors import ConfigError
from runbook.inventory.addresses import addresses_in, inventory_of_addresses
from runbook.inventory.host_patterns import select
from runbook.values.inventory import Inventory
from runbook.values.run_origin import RestsOn
from tests.support.parse_text import inventory
from tests.support.tables import every_row


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch) -> Path:
    """A directory without an inventory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RUNBOOK_INVENTORY", raising=False)
    return tmp_path


def found(pattern: str) -> Inventory:
    return inventory_for(Choosing(), pattern)


def mistakes(pattern: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        found(pattern)
    return [str(problem) for problem in caught.value.problems]


ADDRESSES = [
    ("root@10.0.0.7:2222", ("root", "10.0.0.7:2222")),
    ("gpu-01.example.net", ("", "gpu-01.example.net")),
    ("ops@gpu-01", ("ops", "gpu-01")),
    ("gpu-01:2222", ("", "gpu-01:2222")),
    ("10.0.0.7", ("", "10.0.0.7")),
    ("2001:db8::1", ("", "2001:db8::1")),
    ("root@2001:db8::1", ("root", "2001:db8::1")),
    ("[2001:db8::1]", ("", "2001:db8::1")),
    ("root@[2001:db8::1]:2222", ("root", "2001:db8::1:2222")),
]


@every_row("text, expected", ADDRESSES)
def test_an_address_is_a_host_of_that_name(text, expected):
    (host,) = select(found(text), text, include_not_ready=False).hosts
    assert (host.name, (host.user, str(host.addresses[0]))) == (text, expected)
    assert len(host.addresses) == 1


def test_several_addresses_are_several_hosts_in_their_order_with_ranges():
    pattern = "root@10.0.0.[9-11]:2222, h.example ,[::1]:22"
    hosts = select(found(pattern), pattern, include_not_ready=False).hosts
    names = ["root@10.0.0.9:2222", "root@10.0.0.10:2222", "root@10.0.0.11:2222", "h.example", "[::1]:22"]
    assert [host.name for host in hosts] == names
    assert found(pattern).digest == inventory_of_addresses(reversed(names)).digest != found("h.example").digest


WRONG = [
    ("gpu-01", "no inventory: give one with -i FILE, in $RUNBOOK_INVENTORY, or as ./inventory/distributed_hosts.yaml (without one, write an address: --hosts USER@gpu-01)"),
    ("all", "no inventory: give one with -i FILE, in $RUNBOOK_INVENTORY, or as ./inventory/distributed_hosts.yaml"),
    ("gpu-01,h.example", "no inventory was found, and 'gpu-01' is no address (write USER@gpu-01, or give an inventory that has it (-i FILE))"),
    ("a.b!c.d", "no inventory: give one"),
    ("*.example", "no inventory: give one"),
    ("region=eu.1", "no inventory: give one"),
    ("@last", "no inventory: give one"),
    ("h.example:0", "h.example:0.ssh_port: expected a port from 1 to 65535, not '0'"),
    ("h.example:99999", "h.example:99999.ssh_port: expected a port from 1 to 65535, not '99999'"),
    ("-oX@h.example", "-oX@h.example.ssh_user: expected one word that does not begin with '-', not '-oX'"),
    ("-h.example", "-h.example.ssh_host: expected one word that does not begin with '-', not '-h.example'"),
    ("h.example,root@h.example", "h.example and root@h.example are the same address (keep one of them)"),
    ("root@10.0.0.[3-1]", "root@10.0.0.[3-1] has a range that ends before it begins"),
    ("root@10.0.0.[1-99999]", "root@10.0.0.[1-99999] stands for more than 10000 hosts"),
    ("10.0.0.[1", "lacks a ']'"),
    ("2001:db8::1:2222", "2001:db8::1:2222 may end with a port"),
]  # fmt: skip


@every_row("pattern, said", WRONG)
def test_what_is_no_list_of_addresses_is_refused(pattern, said):
    (problem,) = mistakes(pattern)
    assert said in problem


def test_with_an_inventory_its_names_go_and_no_addresses(nowhere):
    there = inventory("hosts: {gpu-01: {ssh_host: 10.0.0.1}}")
    for pattern, hint in (("root@gpu-01", "(did you mean gpu-01? who logs in"), ("root@10.0.0.1:22", "(who logs in")):
        with pytest.raises(ConfigError) as caught:
            select(there, pattern, include_not_ready=False)
        assert f"{pattern}: with an inventory, hosts are named as it names them {hint}" in str(caught.value)
    (nowhere / "hosts.yaml").write_text("hosts: {gpu-01: {}}\n")
    given = inventory_for(Choosing(inventory=("hosts.yaml",)), "root@10.0.0.1")
    assert [host.name for host in given.hosts] == ["gpu-01"]
    assert addresses_in("gpu-01") == ()


def test_an_earlier_run_without_an_inventory_has_its_addresses_again(nowhere):
    """Mutants: its hosts are looked for in the inventory that is there now; host names are taken for addresses."""
    (nowhere / "inventory").mkdir()
    (nowhere / "inventory" / "distributed_hosts.yaml").write_text("hosts: {gpu-01: {}}\n")
    again = inventory_again((), RestsOn(hosts={"root@10.0.0.1:22": "x", "[::1]:22": "y"}))
    assert [host.name for host in again.hosts] == ["root@10.0.0.1:22", "[::1]:22"]
    for hosts in ({"gpu-01": "x"}, {"gpu-01": "x", "a.b": "y"}, {}):
        assert [host.name for host in inventory_again((), RestsOn(hosts=hosts)).hosts] == ["gpu-01"]
    file = ("inventory/distributed_hosts.yaml",)
    for given, files in ((file, ()), ((), file)):
        assert inventory_again(given, RestsOn(inventory=files, hosts={"a.b": "x"})).hosts[0].name == "gpu-01"


def test_what_is_owed_to_addresses_is_settled_beside_what_is_owed_to_an_inventory_s_hosts(nowhere):
    (nowhere / "hosts.yaml").write_text("hosts: {gpu-01: {}, a.b: {}}\n")
    records = [
        RestsOn(inventory=("hosts.yaml", "gone.yaml"), hosts={"gpu-01": "x"}),
        RestsOn(inventory=(), hosts={"root@10.0.0.1": "x", "bare": "y", "a.b": "z"}),
    ]
    made = inventories_again((), records)
    assert [host.name for host in made.hosts] == ["gpu-01", "a.b", "root@10.0.0.1"]
    assert made.sources == read_inventory([Path("hosts.yaml")]).sources
    assert inventories_again((), [RestsOn(hosts={"bare": "x"})]).hosts == ()
