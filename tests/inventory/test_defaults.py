"""`defaults:` holds for every host that does not say otherwise; nobody's slip of a top-level key is silently left."""

from __future__ import annotations

from tests.support.parse_text import inventory, mistakes
from tests.support.tables import every_row


def test_a_default_holds_for_every_host_that_has_not_its_own():
    found = inventory("""
        defaults: {ssh_user: ops, ssh_port: 2222, ssh_proxy: gate, region: eu-1, gpu: 8x H100, is_container: true}
        hosts:
          n1: {ssh_host: 10.0.0.1}
          n2: {ssh_host: root@10.0.0.2, ssh_port: 22, region: us-1, gpu: none, is_container: no}
          n3: {ssh_user: null, ssh_proxy: ~}
          n[4-5]: {ssh_host: '10.0.0.[4-5]'}
          gate: {ssh_host: 192.0.2.1}
          here: {transport: local}
        """)
    by_name = {host.name: host for host in found.hosts}
    shown = {name: (host.user, str(host.addresses[0]) if host.addresses else "") for name, host in by_name.items()}
    assert shown == {
        "n1": ("ops", "10.0.0.1:2222"), "n2": ("root", "10.0.0.2:22"), "n3": ("", "n3:2222"),
        "n4": ("ops", "10.0.0.4:2222"), "n5": ("ops", "10.0.0.5:2222"), "gate": ("ops", "192.0.2.1:2222"),
        "here": ("ops", ""),
    }  # fmt: skip
    assert {name for name, host in by_name.items() if host.via} == {"n1", "n2", "n4", "n5"}
    assert found.groups["eu-1"] == ("n1", "n3", "n4", "n5", "gate", "here")
    assert "n2" in found.groups["cpu"]
    assert "n1" in found.groups["gpu"]
    assert by_name["n1"].vars["region"] == "eu-1"
    assert (by_name["n1"].host_keys, by_name["n2"].host_keys) == ("ignore", "accept-new")


def test_a_field_of_the_users_own_has_a_default_where_some_host_has_it():
    found = inventory("defaults: {team: a}\nhosts: {n1: {team: b}, n2: {}}")
    assert [host.vars["team"] for host in found.hosts] == ["b", "a"]


def test_the_other_forms_have_defaults_by_their_names_and_by_ours():
    for key in ("user", "ssh_user"):
        found = inventory(f"defaults: {{{key}: ops}}\nhosts: [{{name: n1, host: 10.0.0.1}}, {{name: n2, user: root}}]")
        assert [host.user for host in found.hosts] == ["ops", "root"]
    found = inventory("defaults: {port: 2222}\nvast_hosts: {v1: {host: gate}, v2: {host: gate, port: 22}}")
    assert [str(host.addresses[0]) for host in found.hosts] == ["gate:2222", "gate:22"]


WRONG = [
    ("{ssh_usr: ops}", "1:12: defaults.ssh_usr: unknown field (did you mean ssh_user?)"),
    ("{user: ops}", "1:12: defaults.user: unknown field (did you mean ssh_user?)"),
    ("{ssh_host: 10.0.0.1}", "1:12: defaults.ssh_host: each host has its own (write it below the host)"),
    ("{hostname: 10.0.0.1}", "1:12: defaults.hostname: each host has its own"),
    ("{name: n1}", "1:12: defaults.name: each host has its own"),
    ("{cloudflare_tunnel: t.example}", "1:12: defaults.cloudflare_tunnel: each host has its own"),
    ("{secrets: {a: {env: A}}}", "1:12: defaults.secrets: unknown field 'secrets' (what holds for all hosts stands under"),
    ("{tem: a}", "1:12: defaults.tem: unknown field (did you mean team?)"),
    ("{colour: a}", "1:12: defaults.colour: unknown field"),
    ("{ssh_port: abc}", "1:12: defaults.ssh_port: expected a port from 1 to 65535, not 'abc'"),
    ("{ssh_port: '[1-9]'}", "1:12: defaults.ssh_port: expected a port"),
    ("{ssh_user: -x}", "1:12: defaults.ssh_user: expected one word"),
    ("{transport: [a]}", "1:12: defaults.transport: expected text, not a list"),
    ("[ssh_user]", "1:1: defaults: expected a mapping of fields, not a list"),
    ("{ssh_proxy: gw}", "1:12: n1: ssh_proxy: no host of the inventory is called gw"),
]  # fmt: skip


@every_row("text, said", WRONG)
def test_a_mistake_in_the_defaults_is_said_once_with_its_place(text, said):
    (problem,) = mistakes(f"defaults: {text}\nhosts:\n  n1: {{team: a}}\n  n2: {{}}\n")
    assert problem.startswith(f"a.yaml:{said}")


def test_a_default_hides_no_slip_of_a_host():
    (said,) = mistakes("defaults: {ssh_user: ops}\nhosts: {n1: {user: root}}")
    assert said.startswith("a.yaml:2:14: hosts.n1.user: unknown field (did you mean ssh_user?)")


SLIPS = [
    ("host: {n2: {}}", "did you mean hosts?"),
    ("default: {ssh_user: ops}", "did you mean defaults?"),
    ("vars: {ansible_user: ops}", "did you mean defaults?"),
    ("all: {ssh_user: ops}", "did you mean defaults?"),
    ("ssh_user: ops", "what holds for all hosts stands under defaults: defaults: {ssh_user: ...}"),
    ("ssh_usr: ops", "what holds for all hosts stands under defaults: defaults: {ssh_user: ...}"),
    ("more: {n2: {ssh_host: 10.0.0.1}}", "hosts stand under hosts: did you mean that?"),
]


@every_row("text, hint", SLIPS)
def test_a_top_level_key_that_is_meant_for_us_and_that_nobody_reads_is_an_error(text, hint):
    (said,) = mistakes(f"hosts: {{n1: {{}}}}\n{text}\n")
    assert said == f"a.yaml:2:1: unknown key {text.partition(':')[0]!r} ({hint})"


@every_row(
    "text",
    [
        "voters: [n1]",
        "sync: {disk: 70}",
        "vars: {threads: 8}",
        "paths: {a: {b: c}}",
        "port: 8080",
        "extra: {}",
        "more: {a: {ssh_host: b}, c: {d: e}}",
    ],
)
def test_a_top_level_key_of_another_program_is_left_alone(text):
    assert len(inventory(f"hosts: {{n1: {{}}}}\n{text}\n").hosts) == 1
