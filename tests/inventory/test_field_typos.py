"""A slip in the name of a field is a mistake, for it would steer us wrongly without a word."""

from __future__ import annotations

import pytest

from runbook.inventory import read
from runbook.inventory.host_patterns import select
from tests.support.parse_text import document, host, inventory, mistakes
from tests.support.tables import every_row


@every_row(
    ("field", "meant"),
    [
        ("stauts: offline", "status"),
        ("Status: offline", "status"),
        ("STATUS: offline", "status"),
        ("state: offline", "status"),
        ("statsu: offline", "status"),
        ("ssh-host: 10.0.0.1", "ssh_host"),
        ("sshhost: 10.0.0.1", "ssh_host"),
        ("ssh host: 10.0.0.1", "ssh_host"),
        ("hostname: 10.0.0.1", "ssh_host"),
        ("host: 10.0.0.1", "ssh_host"),
        ("ip: 10.0.0.1", "ssh_host"),
        ("ansible_host: 10.0.0.1", "ssh_host"),
        ("user: root", "ssh_user"),
        ("ansible_user: root", "ssh_user"),
        ("port: 22", "ssh_port"),
        ("ssh_prot: 22", "ssh_port"),
        ("identity_file: ~/.ssh/x", "ssh_key"),
        ("bastion: cpu-1", "ssh_proxy"),
        ("gpus: 8x H100", "gpu"),
        ("roles: [a]", "role"),
        ("regoin: eu", "region"),
        ("is_ephemral: true", "is_ephemeral"),
        ("ephemeral: true", "is_ephemeral"),
        ("tailscale-ip: 100.64.0.1", "tailscale_ip"),
        ("Fallback_Host: a", "fallback_host"),
    ],
)
def test_a_field_that_means_one_of_ours_is_refused_with_that_one(field, meant):
    name = field.partition(":")[0]
    assert mistakes(f"hosts:\n  n1:\n    {field}\n") == [
        f"a.yaml:3:5: hosts.n1.{name}: unknown field (did you mean {meant}?)"
    ]


@every_row(
    "fields",
    [
        "ssh_host: 10.0.0.1, host: something-else, hostname: node1, ip: 10.0.0.9",
        "status: ready, state: CA, stauts: x",
        "gpu: 8x H100, gpus: 8",
        "provider_id: i-123, status_note: fine, role_arn: x, ssh_options: -4, gpu_name: H100, region_name: x",
        "p2p_port: 8770, worker_port: 8765, ringrift_path: /x, note: x, name: x, vast_instance_id: '1'",
        "colour: red, rack: 7, serial: abc, os: debian, hosts_file: x, userdata: x, import: x",
    ],
)
def test_the_fields_of_other_programs_are_theirs(fields):
    assert host(fields).name == "h1"


def test_other_formats_have_their_own_names_for_fields():
    assert inventory("vast_hosts: {a: {host: 10.0.0.1, user: root, port: 22}}").hosts[0].user == "root"
    assert inventory("hosts: [{name: a, host: 10.0.0.1, port: 22}]").hosts[0].addresses[0].port == 22
    (said,) = mistakes("vast_hosts: {a: {hots: 10.0.0.1, host: x, usre: y, stauts: offline}}")
    assert "did you mean status?" in said


def test_a_transport_that_there_is_not_is_a_mistake_of_the_file():
    from runbook.errors import ConfigError

    with pytest.raises(ConfigError) as caught:
        read([document("hosts: {a: {transport: shh}}")], ("ssh", "local"))
    assert str(caught.value) == "hosts.yaml:1:13: a: there is no transport 'shh' (did you mean ssh?)"


def test_a_transport_that_there_is_not_is_told_at_its_own_line():
    from runbook.errors import ConfigError

    text = """
    hosts:
      a:
        ssh_host: 10.0.0.1
        transport: shh
    """
    with pytest.raises(ConfigError) as caught:
        read([document(text)], ("ssh", "local"))
    assert str(caught.value).startswith("hosts.yaml:5:5: a: there is no transport")


FLEET = "hosts:\n" + "".join(
    f"  gpu-{n:02}: {{gpu: H100, status: {'offline' if n == 2 else 'ready'}}}\n" for n in range(1, 5)
)


@every_row("pattern", ["gpu-[01-04]", "gpu-*", "all", "gpu", "gpu-0[1-4]"])
def test_a_range_leaves_out_what_is_not_ready_as_a_glob_does(pattern):
    chosen = select(inventory(FLEET), pattern, False)
    assert [it.name for it in chosen.hosts] == ["gpu-01", "gpu-03", "gpu-04"]
    assert [(it.host, it.why) for it in chosen.left_out] == [("gpu-02", "status: offline")]
    assert not chosen.warnings


def test_a_plain_name_takes_what_is_not_ready_and_warns_of_it():
    chosen = select(inventory(FLEET), "gpu-[01-04],gpu-02", False)
    assert [it.name for it in chosen.hosts] == ["gpu-01", "gpu-02", "gpu-03", "gpu-04"]
    assert chosen.warnings == ("gpu-02 is taken although its status is offline, because it is named",)


@every_row(
    ("pattern", "hint"),
    [
        ("gpu-[1-3]", "did you mean gpu-[01-03]?"),
        ("gpu-[001-003]", "did you mean gpu-[01-03]?"),
        ("gpu-01 gpu-02", "join several by commas: gpu-01,gpu-02"),
        ("gpu-[1-9]", "hosts: gpu-[01-04]"),
        ("gpu-[01-90]", "there is no gpu-[05-90] in the inventory"),
        ("gpu-01:gpu-02", "in Ansible's words; here it is gpu-01,gpu-02"),
        ("all:!gpu-01", "in Ansible's words; here it is all,!gpu-01"),
    ],
)
def test_a_pattern_that_is_nearly_right_is_answered_with_the_right_one(pattern, hint):
    from runbook.errors import ConfigError

    with pytest.raises(ConfigError) as caught:
        select(inventory(FLEET), pattern, False)
    assert hint in str(caught.value)


@every_row("key", ["group", "gruops", "Groups"])
def test_groups_under_another_name_are_a_mistake(key):
    (said,) = mistakes(f"hosts: {{a: {{}}}}\n{key}: {{rack: [a]}}\n")
    assert said == f"a.yaml:2:1: unknown key {key!r}, with hosts or secrets as `groups` has them (did you mean groups?)"


@every_row("rest", ["group: training", "group: {a: 1}", "grouping: {rack: [a]}", "groups: {}\ngroup: {b: [c]}"])
def test_what_other_programs_keep_beside_hosts_is_theirs(rest):
    assert len(inventory(f"hosts: {{a: {{}}}}\n{rest}\n").hosts) == 1


def test_a_slip_in_a_status_is_said_where_the_host_is_left_out():
    from runbook.errors import ConfigError

    with pytest.raises(ConfigError, match=r"a \(status: redy; did you mean ready\?\); b \(status: offline\)"):
        select(inventory("hosts: {a: {status: redy}, b: {status: offline}}"), "all", False)


PLACEHOLDERS = (
    "your-staging-server.example.com YOUR_HOST xxx.xxx.xxx.xxx change-me.local user@your-server ${HOST} replace_this"
)


@every_row("address", PLACEHOLDERS.split())
def test_an_address_that_somebody_has_yet_to_fill_in_is_a_placeholder(address):
    assert host(f"ssh_host: '{address}'").placeholder


@every_row("address", ["yourhost", "mylab.example.com", "gpu-my-1", "10.0.0.1", "xenon-1", "xx"])
def test_other_addresses_are_none(address):
    assert bool(host(f"ssh_host: '{address}'").placeholder) == (address == "xx")


@every_row(
    ("address", "said"),
    [
        (
            "2001:db8::1:2222",
            "may end with a port (write [2001:db8::1:2222] if all of it is the address, or 2001:db8::1",
        ),
        ("[2001:db8::1]:2222", "expected an address without a port"),
        ("2001:db8::xyz", "expected a host name or an IP address"),
        ("a:b:c", "expected a host name or an IP address"),
        ("[10.0.0.1]", "expected a host name or an IP address"),
    ],
)
def test_an_address_that_could_be_read_in_two_ways_is_refused(address, said):
    (mistake,) = mistakes(f"hosts: {{a: {{ssh_host: '{address}'}}}}")
    assert said in mistake


@every_row(
    "fields", ["ssh_host: '2001:db8::1'", "ssh_host: '[2001:db8::1:2222]'", "ssh_host: 'fe80::1%eth0'",
               "ssh_host: '2001:db8::1:2222', ssh_port: 22"]
)  # fmt: skip
def test_an_address_of_ipv6_is_taken(fields):
    assert ":" in host(fields).addresses[0].host


def parsed(text: str):
    from runbook.language.yaml_source import parse_inventory

    made = parse_inventory(text, "a.yaml")
    return read([(made.value, "a.yaml", made.where)])


@every_row("port", ["22:22", "0x16:1", "022", "1_000:2"])
def test_a_port_of_another_base_is_no_port(port):
    from runbook.errors import ConfigError

    with pytest.raises(ConfigError, match="expected a port from 1 to 65535"):
        parsed(f"hosts: {{a: {{ssh_port: {port}}}}}")


@pytest.mark.soak
def test_the_time_for_an_inventory_grows_as_it_does():
    """Ten times as many hosts may take fifteen times the time, not a hundred times (a list was searched for each)."""
    import gc
    import time

    def seconds(number: int) -> float:
        text = "hosts:\n" + "".join(
            f"  gpu-{n:05}: {{ssh_host: 10.0.{n // 256}.{n % 256}, gpu: H100, role: a{n % 7}, region: r{n % 3}}}\n"
            for n in range(number)
        )
        gc.disable()
        try:
            began = time.process_time()
            parsed(text)
            return time.process_time() - began
        finally:
            gc.enable()

    seconds(50)
    small = min(seconds(300) for _ in range(3))
    assert seconds(3000) < small * 25
