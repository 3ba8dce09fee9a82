"""A pattern takes exactly the hosts that it says, or none and says why."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runbook.errors import ConfigError
from runbook.inventory.host_patterns import select
from runbook.text.name_ranges import fold
from runbook.values.inventory import Host, Inventory
from tests.support.parse_text import inventory
from tests.support.tables import every_row

FLEET = inventory(
    "hosts:\n"
    + "".join(f"  gpu-{number:02}: {{gpu: H100, role: trainer, cores: {number}}}\n" for number in range(1, 13))
    + """
  cpu-1: {role: voter, region: eu-north1, p2p: true, tags: [fast, big], note: 'slot [1,2]', status: ' READY '}
  cpu-2: {role: voter, region: us-east1, p2p: false, note: null}
  vast-1: {gpu: RTX 4090, ssh_host: <ip>}
  vast-2: {gpu: RTX 4090, status: offline}
  vast-3: {gpu: RTX 4090, status: retired, role: 'odd, role'}
groups:
  rack-1: [gpu-01, gpu-02, cpu-1]
"""
)


def taken(pattern: str, include_not_ready: bool = False) -> str:
    return fold(it.name for it in select(FLEET, pattern, include_not_ready).hosts)


def refused(pattern: str) -> str:
    with pytest.raises(ConfigError) as caught:
        select(FLEET, pattern, False)
    return str(caught.value)


@every_row(
    ("pattern", "hosts"),
    [
        ("all", "cpu-[1-2],gpu-[01-12]"),
        ("*", "cpu-[1-2],gpu-[01-12]"),
        ("cpu-1", "cpu-1"),
        (" cpu-1 , cpu-2 ", "cpu-[1-2]"),
        ("cpu-?", "cpu-[1-2]"),
        ("gpu-0*", "gpu-[01-09]"),
        ("*-1*", "cpu-1,gpu-[10-12]"),
        ("gpu-[01-03]", "gpu-[01-03]"),
        ("gpu-[01-03,07,10-12]", "gpu-[01-03,07,10-12]"),
        ("gpu-[01-11/5]", "gpu-[01,06,11]"),
        ("gpu-[0-1]1", "gpu-[01,11]"),
        ("gpu-[0-1][1-2]", "gpu-[01-02,11-12]"),
        ("gpu-[0-1]*", "gpu-[01-12]"),
        ("note=slot [1,2]", "cpu-1"),
        ("rack-1", "cpu-1,gpu-[01-02]"),
        ("gpu", "gpu-[01-12]"),
        ("cpu", "cpu-[1-2]"),
        ("trainer", "gpu-[01-12]"),
        ("eu-north1", "cpu-1"),
        ("role=voter", "cpu-[1-2]"),
        ("role=v*", "cpu-[1-2]"),
        ("region=*-east?", "cpu-2"),
        ("cores=1?", "gpu-[10-12]"),
        ("cores = 3", "gpu-03"),
        ("p2p=true", "cpu-1"),
        ("p2p=false", "cpu-2"),
        ("tags=big", "cpu-1"),
        ("note=", "cpu-2"),
        ("group=rack-?", "cpu-1,gpu-[01-02]"),
        ("device=cpu", "cpu-[1-2]"),
        ("name=cpu-*", "cpu-[1-2]"),
        ("transport=ssh&cpu", "cpu-[1-2]"),
        ("status=ready", "cpu-[1-2],gpu-[01-12]"),
        ("rack-1!cpu-1", "gpu-[01-02]"),
        ("rack-1,!cpu-1", "gpu-[01-02]"),
        ("rack-1&gpu", "gpu-[01-02]"),
        ("rack-1,&gpu", "gpu-[01-02]"),
        ("rack-1^cpu", "cpu-2,gpu-[01-02]"),
        ("all!gpu-[01-11]", "cpu-[1-2],gpu-12"),
    ],
)
def test_a_pattern_takes_these(pattern, hosts):
    assert taken(pattern) == hosts


def test_operators_are_taken_from_left_to_right():
    assert taken("cpu-1,gpu-01!gpu,gpu-02") == "cpu-1,gpu-02"
    assert taken("gpu-02,cpu-1,gpu-01!gpu") == "cpu-1"
    assert taken("gpu-01,cpu-1&cpu") == "cpu-1"
    assert taken("cpu-1&cpu,gpu-01") == "cpu-1,gpu-01"


def test_hosts_come_in_the_order_of_the_inventory():
    assert [it.name for it in select(FLEET, "cpu-1,gpu-02,gpu-01", False).hosts] == ["gpu-01", "gpu-02", "cpu-1"]


# --- hosts that are not ready


def test_a_host_that_is_not_ready_is_left_out_and_the_reason_told():
    chosen = select(FLEET, "all", False)
    assert {it.host: it.why for it in chosen.left_out} == {
        "vast-1": "address is a placeholder: <ip>",
        "vast-2": "status: offline",
        "vast-3": "status: retired",
    }


@every_row("pattern", ["vast-2", "all&vast-2", "vast-[1-3]&vast-2"])
def test_naming_a_host_in_full_takes_it_in(pattern):
    assert "vast-2" in [it.name for it in select(FLEET, pattern, False).hosts]


@every_row(
    "pattern", ["all", "*", "vast-*", "vast-?,cpu-1", "vast-[2-3],cpu-1", "vast-[2-3]*,cpu-1", "vast,cpu", "gpu"]
)
def test_a_host_that_is_matched_otherwise_stays_out(pattern):
    try:
        hosts = select(FLEET, pattern, False).hosts
    except ConfigError:
        hosts = ()
    assert "vast-2" not in [it.name for it in hosts]


def test_the_option_takes_in_all_but_those_without_an_address():
    chosen = select(FLEET, "all", True)
    assert {"vast-2", "vast-3"} <= {it.name for it in chosen.hosts}
    assert [it.host for it in chosen.left_out] == ["vast-1"]


def test_if_nobody_is_ready_the_way_to_take_them_in_is_told():
    said = refused("vast-2*,vast-3*")
    assert "vast-2 (status: offline); vast-3 (status: retired)" in said
    assert "--include-not-ready takes hosts whatever their status; so does naming a host" in said


def test_a_placeholder_is_never_connected_to_though_its_host_is_named():
    said = refused("vast-1")
    assert "address is a placeholder: <ip>" in said
    assert "write its address in a.yaml:17:3" in said
    assert "--include-not-ready" not in said


# --- what matches nothing


@every_row(
    ("pattern", "said"),
    [
        ("", "the pattern of hosts is empty; `all` means every host"),
        ("  ", "the pattern of hosts is empty"),
        ("gpu-1", "no host and no group is called 'gpu-1' (did you mean gpu-"),
        ("GPU-01", "did you mean gpu-01?"),
        ("trainr", "did you mean trainer?"),
        ("qqqqqq", "(hosts: cpu-[1-2],gpu-[01-12],vast-[1-3]; groups: "),
        ("all!trainr", "did you mean trainer?"),
        ("db-*", "no host matches 'db-*'"),
        ("gpu-[01-16]", "gpu-[01-16]: there is no gpu-[13-16] in the inventory"),
        ("gpu-[1-3]", "gpu-[1-3]: there is no gpu-[1-3] in the inventory (did you mean gpu-[01-03]?)"),
        ("db-[1-2]*", "no host matches 'db-1*' of db-[1-2]*"),
        ("gpu-[a-b]", "between [ and ] there are numbers and ranges"),
        ("gpu-[]", "between [ and ] there are numbers and ranges"),
        ("gpu-[3-1]", "gpu-[3-1]: not a range (invalid values in range"),
        ("gpu-[1-05]", "gpu-[1-05]: not a range (padding length mismatch"),
        ("gpu-[01-02", "lacks a ']'"),
        ("gpu-01]", "has a ']' too many"),
        ("gpu-[[01]]", "has a '[' too many"),
        ("gpu-[0-999999999999]", "expands to more than 10000 names"),
        ("gpu-[0-999][0-999]", "expands to more than 10000 names"),
        ("colour=red", "colour=red: no host has a field 'colour'"),
        ("rol=voter", "no host has a field 'rol' (did you mean role?)"),
        ("role=cook", "no host has role=cook (role is one of: odd, role, trainer, voter)"),
        ("all,", "has no host after ','"),
        ("all!", "has no host after '!'"),
        ("all,,cpu", "has no host after ','"),
        ("all!&cpu", "has no host after '!'"),
        ("!cpu", "begins with '!' (all!cpu takes every other host)"),
        ("&cpu", "begins with '&'"),
        ("cpu!cpu", "selects no hosts"),
        ("gpu&cpu", "selects no hosts"),
    ],
)
def test_a_pattern_that_cannot_be_meant_is_told_why(pattern, said):
    assert said in refused(pattern)


def test_every_mistake_of_a_pattern_is_told_at_once():
    assert len(refused("nobody-1,cpu,nothing=2,gpu-[90-91]").splitlines()) == 3


def test_a_group_name_that_can_mean_two_things_asks_which():
    odd = inventory("hosts: {mac-1: {}, office: {region: local}}")
    with pytest.raises(ConfigError, match="write provider=local or region=local"):
        select(odd, "local", False)
    assert [it.name for it in select(odd, "provider=local", False).hosts] == ["mac-1"]


def test_an_inventory_without_gpus_says_that_rather_than_guess_another_group():
    with pytest.raises(ConfigError, match="no host of the inventory has a GPU of NVIDIA or AMD"):
        select(inventory("hosts: {a: {gpu: none}}"), "gpu", False)


def test_settings_of_clustershell_on_this_machine_have_no_say(tmp_path):
    (tmp_path / "groups.conf").write_text("[Main]\ndefault: bad\n[bad]\nmap: echo gpu-99\nall: echo gpu-99\n")
    (tmp_path / "defaults.conf").write_text("[nodeset]\nfold_axis: -1\n")
    code = "from runbook.text.name_ranges import fold; print(fold([f'a{x}b{y}' for x in (1, 2) for y in (1, 2)]))"
    where = {**os.environ, "CLUSTERSHELL_CFGDIR": str(tmp_path)}

    def folded() -> str:
        return subprocess.run(
            [sys.executable, "-c", code], env=where, capture_output=True, text=True, check=True
        ).stdout

    assert folded() == "a[1-2]b[1-2]\n"
    (tmp_path / "defaults.conf").write_text("this is [not a settings file\n")
    assert folded() == "a1b1,a1b2,a2b1,a2b2\n"


# --- laws

NAMES = st.from_regex(r"[a-z]{1,2}-?[0-9]{1,2}([a-z.][0-9]{1,2})?", fullmatch=True)
OTHER_NAMES = st.from_regex(r"\w[\w.:+-]{0,5}", fullmatch=True).filter(lambda it: it != "all")
FLEETS = st.lists(st.one_of(NAMES, OTHER_NAMES), min_size=1, max_size=12, unique=True)


def fleet(names: list[str], offline: int = 0) -> Inventory:
    hosts = tuple(Host(name=it, status="offline" if number < offline else "ready") for number, it in enumerate(names))
    return Inventory(hosts=hosts)


def names_of(hosts: Inventory, pattern: str) -> set[str]:
    try:
        return {it.name for it in select(hosts, pattern, True).hosts}
    except ConfigError:
        return set()


@given(FLEETS, st.data())
def test_operators_are_those_of_sets(names, data):
    some = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    more = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    a, b, hosts = set(some), set(more), fleet(names)
    left = ",".join(some)
    assert names_of(hosts, f"{left},{','.join(more)}") == a | b
    assert names_of(hosts, f"{left}!{'!'.join(more)}") == a - b
    assert names_of(hosts, "&".join([left, more[0]])) == a & {more[0]}
    assert names_of(hosts, "^".join([left, *more])) == a ^ b
    assert names_of(hosts, f"all!{'!'.join(some)}") == set(names) - a


@given(FLEETS, st.data())
def test_what_is_folded_matches_the_same_hosts_again(names, data):
    some = data.draw(st.lists(st.sampled_from(names), min_size=1))
    assert names_of(fleet(names), fold(some)) == set(some)


@given(
    FLEETS,
    st.integers(0, 12),
    st.one_of(st.text(max_size=10), st.text(alphabet="ab1-[],!&^*?=0", max_size=12)),
    st.booleans(),
)
def test_whatever_is_asked_only_hosts_of_the_inventory_are_taken_each_once(names, offline, pattern, take_in):
    hosts = fleet(names, offline)
    try:
        chosen = select(hosts, pattern, take_in)
    except ConfigError:
        return
    seen = [it.name for it in chosen.hosts] + [it.host for it in chosen.left_out]
    assert chosen.hosts
    assert len(seen) == len(set(seen))
    assert all(it in hosts.hosts for it in chosen.hosts)
    assert set(seen) <= set(names)


def test_a_group_whose_name_means_something_else_too_is_chosen_by_its_kind():
    """Mutant: ``_values`` of the groups that a bare name may mean."""
    fleet = inventory("all: {children: {gpu: {hosts: {n1: {gpu: H100}, n2: {}}}, ready: {hosts: {n2: {}}}}}")
    assert names_of(fleet, "gpu") == names_of(fleet, "group=gpu") == {"n1", "n2"}
    assert names_of(fleet, "device=gpu") == {"n1"}
    assert names_of(fleet, "group=ready") == {"n2"}
