"""Inventories that other programs have, as they are: the same hosts, users, addresses, ports, ways and GPUs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from runbook.commands.input_files import read_inventory
from runbook.errors import ConfigError
from runbook.inventory.host_patterns import select
from runbook.values.inventory import Host, Inventory
from tests.support.tables import every_row

CASES = yaml.safe_load((Path(__file__).parents[1] / "data/first_contact.yaml").read_text())
LISTING = {
    "_meta": {"hostvars": {"a": {"ansible_host": "192.0.2.1", "ansible_user": "ops", "gpu": "8x H100"}, "b": {}}},
    "all": {"children": ["ungrouped", "train"]},
    "train": {"hosts": ["a"], "vars": {"tier": 1}},
    "ungrouped": {"hosts": ["b"]},
}


def written(folder: Path, text: str, name: str = "hosts") -> Inventory:
    (folder / name).write_text(text)
    return read_inventory([folder / name])


def way(host: Host) -> str:
    """``user@address:port``, with the hosts before it behind ``via``, and why it is left out."""
    if host.placeholder:
        return "left out"
    here = f"{host.user}@" if host.user else ""
    here += ",".join(map(str, host.addresses)) or host.transport
    return f"{here} via {way(host.via)}" if host.via else here


def device(host: Host, found: Inventory) -> str:
    """Whether the host has a GPU, by the groups that follow from its fields."""
    return next((name for name in ("gpu", "cpu") if host.name in found.groups.get(name, ())), "unknown")


@every_row(("about", "case"), [(case["about"], case) for case in CASES["ansible"] + CASES["slurm"]])
def test_every_host_is_reached_as_its_own_program_would_reach_it(tmp_path, about, case):
    """Mutants: a jump host of its own; the last of two; a key of a jump left out; a file of Slurm by its first line."""
    if case.get("refused"):
        with pytest.raises(ConfigError) as caught:
            written(tmp_path, case["text"])
        assert case["refused"] in str(caught.value), about
        return
    found = written(tmp_path, case["text"])
    assert {host.name: way(host) for host in found.hosts} == case["hosts"], about
    told = {host.name: device(host, found) for host in found.hosts}
    assert set(told.values()) == {case["device"]} if isinstance(case["device"], str) else told == case["device"]
    labels = case.get("labels", {})
    assert {host.name: host.vars["gpu"] for host in found.hosts if labels} == labels, about
    for name, members in case.get("groups", {}).items():
        assert list(found.groups[name]) == members, (about, name)


@every_row("kind", ["ansible", "slurm"])
def test_there_are_twelve_of_each(kind):
    assert len(CASES[kind]) >= 12


@every_row("pattern", ["gpu", "cpu"])
def test_hosts_that_say_nothing_of_gpus_are_no_hosts_without_one(tmp_path, pattern):
    """Mutants: a host of Ansible's without `gpu` called cpu; the message of a file that says `none`."""
    found = written(tmp_path, "[train]\nt1 ansible_user=ops\nt2\n")
    with pytest.raises(ConfigError) as caught:
        select(found, pattern, False)
    assert "which hosts have a GPU is not known: t[1-2] has no field `gpu`" in str(caught.value)
    assert "group_vars/GROUP.yml" in str(caught.value)
    assert "[GROUP:vars]" in str(caught.value)
    assert "cpu" not in found.groups


def test_the_listing_of_ansible_inventory_is_read(tmp_path):
    """Mutants: hosts of `_meta` alone; the lists of groups left out."""
    found = written(tmp_path, json.dumps(LISTING), "hosts.json")
    assert {host.name: way(host) for host in found.hosts} == {"a": "ops@192.0.2.1", "b": "b"}
    assert found.groups["train"] == ("a",)
    assert found.groups["gpu"] == ("a",)
    by_name = {host.name: host for host in found.hosts}
    assert by_name["a"].vars["tier"] == 1


def program(folder: Path, line: str = "exit 9") -> Path:
    """A dynamic inventory that only says that it was run."""
    path = folder / "hosts.sh"
    path.write_text(f"#!/bin/sh\ntouch {folder}/ran\n{line}\n")
    path.chmod(0o755)
    return path


def lister(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ansible-inventory that runs its program and prints a listing."""
    folder.mkdir()
    (folder / "listing").write_text(json.dumps(LISTING))
    (folder / "ansible-inventory").write_text(f'#!/bin/sh\n"$2"\ncat {folder}/listing\n')
    (folder / "ansible-inventory").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_program_is_run_only_by_ansible_inventory(tmp_path, monkeypatch):
    """Mutant: the program itself run where there is no ansible-inventory."""
    path = program(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(ConfigError, match="there is no ansible-inventory"):
        read_inventory([path])
    assert not (tmp_path / "ran").exists()
    lister(tmp_path / "bin", monkeypatch)
    assert {host.name for host in read_inventory([path]).hosts} == {"a", "b"}
    assert (tmp_path / "ran").exists()


@every_row(("target", "mode"), [("hosts.sh", 0o777), ("hosts.sh", 0o775), (".", 0o777)])
def test_a_program_that_another_user_could_have_written_is_never_run(tmp_path, monkeypatch, target, mode):
    """Mutants: the file asked and not what it lies in; asked after the run."""
    path = program(tmp_path)
    lister(tmp_path / "bin", monkeypatch)
    (tmp_path / target).chmod(mode)
    with pytest.raises(ConfigError, match="may be another user's work"):
        read_inventory([path])
    assert not (tmp_path / "ran").exists()


def test_one_wrong_line_is_one_error_with_the_number_of_its_hosts(tmp_path):
    """Mutants: one for each host; one alone for two lines."""
    with pytest.raises(ConfigError) as caught:
        written(
            tmp_path, "[a]\nn-[1:9] ansible_host=10.0.0.[1:9]\nm-[1:2] ansible_host=10.0.1.[1:2]\nx ansible_port=0\n"
        )
    said = [str(problem) for problem in caught.value.problems]
    assert len(said) == 3, said
    assert "(and so for 8 more)" in said[0]
    assert "(and so for 1 more)" in said[1]
    assert "more)" not in said[2]


@every_row(
    ("pattern", "ours"),
    [("prod:!rack_b", "prod,!rack_b"), ("prod:&rack_b", "prod&rack_b"), ("prod:rack_b", "prod,rack_b")],
)
def test_a_pattern_of_ansible_is_shown_in_ours(tmp_path, pattern, ours):
    """Mutant: the operand alone, without what stands behind it."""
    found = written(tmp_path, "[prod]\na\nb\n[rack_b]\nb\n")
    with pytest.raises(ConfigError) as caught:
        select(found, pattern, False)
    assert str(caught.value).endswith(f"here it is {ours})")
    select(found, ours, False)
