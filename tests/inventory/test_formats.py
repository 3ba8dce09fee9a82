"""Every form in which hosts are written down comes to the same Host."""

from __future__ import annotations

from types import ModuleType
from typing import cast

import pytest
import yaml

from runbook.errors import PluginError
from runbook.inventory import discover
from runbook.values.inventory import Address, HostKeys
from tests.support.parse_text import document, host, inventory, mistakes
from tests.support.tables import every_row

FLEET = """
    # other programs' business
    sync_rules: {disk: 70, excluded: []}
    voters: [n1, n2]
    hosts:
      train-1:
        ssh_host: 10.1.0.1
        tailscale_ip: 100.64.7.1
        ssh_user: ops
        ssh_port: 2200
        gpu: H100 SXM
        role: trainer
        region: eu-1
        paths: {models: /srv/models}
        made_by_nobody: 7
      vast-9:
        ssh_host: gate.example.net
        ssh_port: 20001
        is_ephemeral: true
        gpu: RTX 4090
        vast_id: 12345678
      vast-10: {ssh_host: gate.example.net, ssh_port: 20002, is_container: true, gpu: RTX 4090}
      hop: {ssh_host: 10.1.0.9, ringrift_path: null, status: proxy_only}
      bare:
"""


def test_a_mapping_of_hosts_is_read_in_its_order_and_other_keys_are_left_alone():
    found = inventory(FLEET)
    assert [it.name for it in found.hosts] == ["train-1", "vast-9", "vast-10", "hop", "bare"]
    assert found.sources == ("a.yaml",)
    assert found.hosts[0].where.line == 6


def test_fields_that_we_do_not_know_stay_with_the_host():
    train, vast, _, hop, _ = inventory(FLEET).hosts
    assert train.vars["made_by_nobody"] == 7
    assert train.vars["paths"] == {"models": "/srv/models"}
    assert vast.vars["vast_id"] == 12345678
    assert hop.vars["ringrift_path"] is None


def test_two_hosts_behind_one_gateway_keep_their_ports():
    one, other = (it for it in inventory(FLEET).hosts if it.name.startswith("vast"))
    assert one.addresses == (Address(host="gate.example.net", port=20001),)
    assert other.addresses == (Address(host="gate.example.net", port=20002),)


def test_the_old_form_with_two_sections_is_read():
    found = inventory("""
        standard_hosts:
          box: {ssh_host: 10.1.0.3, ssh_user: ops, ssh_port: 2222, remote_path: /srv/app, role: mixed}
        vast_hosts:
          vast-3: {host: gate.example.net, user: root, port: 20003, remote_path: /root/app}
        """)
    box, vast = found.hosts
    assert (box.addresses, box.user) == ((Address(host="10.1.0.3", port=2222),), "ops")
    assert (vast.addresses, vast.user) == ((Address(host="gate.example.net", port=20003),), "root")
    assert vast.vars["ringrift_path"] == vast.vars["remote_path"] == "/root/app"
    assert "mixed" in box.groups


def test_a_section_of_the_old_form_may_be_empty_beside_the_other():
    assert [it.name for it in inventory("standard_hosts:\nvast_hosts: {v: {host: 10.1.0.1}}").hosts] == ["v"]


def test_where_the_old_form_has_a_field_under_both_names_the_new_one_counts():
    found = inventory("vast_hosts: {v: {host: 10.1.0.1, ssh_host: 10.1.0.2, port: 1, ssh_port: 2}}")
    assert found.hosts[0].addresses == (Address(host="10.1.0.2", port=2),)


def test_the_list_form_is_read():
    found = inventory("""
        hosts:
          - {name: n1, host: 10.1.0.1, fallback_host: 10.2.0.1, port: 2022}
          - {name: n2, host: 10.1.0.2}
        """)
    assert found.hosts[0].addresses == (Address(host="10.1.0.1", port=2022), Address(host="10.2.0.1", port=2022))
    assert found.hosts[1].addresses == (Address(host="10.1.0.2"),)


def test_a_file_half_way_from_the_old_form_to_the_new_loses_no_host():
    assert len(inventory("hosts: {a: {}}\nvast_hosts: {b: {host: 10.1.0.1}}").hosts) == 2


def test_several_files_are_one_inventory():
    found = inventory("hosts: {a: {}}\ngroups: {both: [a, b]}", "hosts: [{name: b, host: 10.1.0.2}]")
    assert [it.name for it in found.hosts] == ["a", "b"]
    assert found.groups["both"] == ("a", "b")
    assert found.sources == ("a.yaml", "b.yaml")


def test_a_host_in_two_files_is_a_mistake_that_names_both():
    (said,) = mistakes("hosts:\n  a: {}\n  b: {}", "x: 1\nhosts:\n  b: {}")
    assert said.startswith("b.yaml:3:3: the host b is also in a.yaml:3:3")


def test_a_list_that_names_a_host_twice_is_a_mistake():
    assert "the host n is also in a.yaml:1:9" in mistakes("hosts: [{name: n, host: a}, {name: n, host: b}]")[0]


# --- addresses


@every_row(
    ("fields", "addresses"),
    [
        ("tailscale_ip: 100.64.0.1, ssh_host: 10.0.0.1, ssh_port: 2222", ["100.64.0.1:22", "10.0.0.1:2222"]),
        ("ssh_port: 2222, ssh_host: 10.0.0.1, tailscale_ip: 100.64.0.1", ["100.64.0.1:22", "10.0.0.1:2222"]),
        ("ssh_host: 10.0.0.1", ["10.0.0.1"]),
        ("ssh_host: 10.0.0.1, tailscale_ip: null", ["10.0.0.1"]),
        ("ssh_host: 10.0.0.1, ssh_port: '2222'", ["10.0.0.1:2222"]),
        ("ssh_host: 10.0.0.1, ssh_port: null", ["10.0.0.1"]),
        ("tailscale_ip: 100.64.0.1", ["100.64.0.1:22", "h1"]),
        ("", ["h1"]),
        ("ssh_host: ''", ["h1"]),
        ("tailscale_ip: 10.0.0.1, ssh_host: 10.0.0.1", ["10.0.0.1:22"]),
        ("tailscale_ip: 10.0.0.1, ssh_host: 10.0.0.1, ssh_port: 2222", ["10.0.0.1:22", "10.0.0.1:2222"]),
        ("ssh_host: 'ops@10.0.0.1'", ["10.0.0.1"]),
        ("ssh_host: '2001:db8::5'", ["2001:db8::5"]),
        ("ssh_host: '[2001:db8::5]', ssh_port: 2222", ["2001:db8::5:2222"]),
        ("ssh_host: 10.0.0.1, tailscale_ip: 100.x.x.x", ["10.0.0.1"]),
        ("ssh_host: 10.0.0.1, tailscale_ip: <tailscale ip>", ["10.0.0.1"]),
        ("transport: local, ssh_host: 10.0.0.1", []),
    ],
)
def test_addresses_are_tried_in_this_order(fields, addresses):
    assert [str(it) for it in host(fields).addresses] == addresses


@every_row(
    ("fields", "user"),
    [
        ("ssh_host: 10.0.0.1", ""),
        ("ssh_user: ops", "ops"),
        ("ssh_host: 'ops@10.0.0.1'", "ops"),
        ("ssh_host: 'ops@10.0.0.1', ssh_user: root", "ops"),
        ("ssh_host: 'ops@corp.example@10.0.0.1'", "ops@corp.example"),
        ("ssh_user: 1000", "1000"),
    ],
)
def test_the_user_is_the_files_or_left_to_ssh(fields, user):
    assert host(fields).user == user


PLACEHOLDERS = [
    "<public-ip>",
    "<the public ip>",
    "100.x.x.x",
    "xxx.xxx.xxx.xxx",
    "192.168.1.X",
    "${HOST_IP}",
    "{{ ip }}",
    "CHANGE_ME",
    "your-host",
    "ops@<public-ip>",
]


@every_row("address", PLACEHOLDERS)
def test_a_placeholder_is_no_address(address):
    found = host(f"ssh_host: '{address}'")
    assert found.addresses == ()
    assert found.placeholder == address.removeprefix("ops@")


@every_row("address", ["10.0.0.1", "x.example.net", "xx.example", "clients.your-server.de", "max-01", "x86-3.lan"])
def test_an_address_that_looks_odd_is_still_an_address(address):
    assert host(f"ssh_host: {address}").placeholder == ""


def test_a_host_on_this_machine_needs_no_address():
    found = host("transport: local, ssh_host: <none-needed>")
    assert (found.transport, found.placeholder, found.addresses) == ("local", "", ())


def test_localhost_is_reached_by_ssh_unless_the_file_says_otherwise():
    assert host("", name="localhost").transport == "ssh"
    assert "local" in host("", name="localhost").groups


# --- keys of hosts, of users, tunnels


@every_row(
    ("fields", "policy"),
    [
        ("", HostKeys.ACCEPT_NEW),
        ("is_ephemeral: false", HostKeys.ACCEPT_NEW),
        ("is_ephemeral: true", HostKeys.IGNORE),
        ("is_container: true", HostKeys.IGNORE),
        ("is_container: yes", HostKeys.IGNORE),
        ("is_container: 'yes'", HostKeys.IGNORE),
        ("is_ephemeral: null, is_container: 'False'", HostKeys.ACCEPT_NEW),
    ],
)
def test_only_hosts_that_come_and_go_are_not_checked(fields, policy):
    assert host(fields).host_keys is policy


def test_a_key_is_expanded_and_the_default_one_taken_only_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert host("").key == ""
    assert host("ssh_key: ~/.ssh/id_x").key == f"{tmp_path}/.ssh/id_x"
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_cluster").write_text("k")
    assert host("").key == f"{tmp_path}/.ssh/id_cluster"
    assert host("ssh_key: ''").key == f"{tmp_path}/.ssh/id_cluster"


def test_a_tunnel_is_the_last_resort_and_its_token_is_on_no_command_line():
    found = host(
        "ssh_host: 10.0.0.5, cloudflare_tunnel: ssh.example.com, "
        "cloudflare_service_token_id: id-0815.access, cloudflare_service_token_secret: s3cr3t-value"
    )
    assert found.addresses == (Address(host="10.0.0.5"),)
    assert found.proxy == "cloudflared access ssh --hostname ssh.example.com"
    assert dict(found.proxy_env) == {
        "TUNNEL_SERVICE_TOKEN_ID": "id-0815.access",
        "TUNNEL_SERVICE_TOKEN_SECRET": "s3cr3t-value",
    }


def test_a_host_with_a_tunnel_can_be_reached_though_its_address_is_a_placeholder():
    found = host("ssh_host: <internal-ip>, cloudflare_tunnel: ssh.example.com")
    assert (found.addresses, found.placeholder) == ((), "")


@every_row("name", ["ssh.example.com;reboot", "-oops", "a b", "$(id)x y", "ssh.example.com --id x"])
def test_a_tunnel_cannot_bring_words_of_its_own_onto_the_command_line(name):
    assert len(mistakes(f"hosts: {{h: {{cloudflare_tunnel: '{name}'}}}}")) == 1


# --- the room itself


def test_every_format_is_found_by_its_file():
    assert set(discover()) >= {"distributed_hosts", "host_list", "legacy_hosts"}


@every_row(
    ("text", "format_"),
    [
        ("hosts: {a: {}}", "distributed_hosts"),
        ("hosts: [{name: a}]", "host_list"),
        ("vast_hosts: {a: {}}", "legacy_hosts"),
    ],
)
def test_a_file_is_of_one_format(text, format_):
    assert [name for name, it in discover().items() if it.recognises(yaml.safe_load(text))] == [format_]


def test_a_format_alone_says_all_that_is_wrong():
    from runbook.errors import ConfigError

    value, file, where = document("hosts: {a: {ssh_port: x}, b: 3, 1: {}, '1': {}}")
    with pytest.raises(ConfigError) as caught:
        discover()["distributed_hosts"].load(value, file, where)
    assert len(caught.value.problems) == 3


def test_a_file_that_recognises_but_cannot_load_is_our_fault(monkeypatch):
    import runbook.inventory as room

    broken = cast("ModuleType", type("broken", (), {"__doc__": "A format.", "recognises": lambda it: True}))
    monkeypatch.setattr(room, "load", lambda *_: broken)
    with pytest.raises(PluginError, match="lacks load"):
        room.discover()
