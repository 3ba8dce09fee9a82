"""An entry whose name is a range stands for so many hosts, each with its own address."""

from __future__ import annotations

from runbook.inventory import hosts
from runbook.text import name_ranges
from runbook.values.inventory import Address
from tests.support.parse_text import inventory, mistakes
from tests.support.tables import every_row


def ways(text: str) -> dict[str, str]:
    return {host.name: " ".join(map(str, host.addresses)) for host in inventory(text).hosts}


def test_a_range_stands_for_so_many_hosts_with_the_same_fields_and_addresses_that_go_along():
    found = inventory("""
        hosts:
          gpu-[008-010,012]:
            ssh_host: root@10.0.0.[8-10,12]
            tailscale_ip: 100.64.0.[1-4]
            gpu: 8x H100
            region: eu-1
          login: {ssh_host: 10.0.0.1}
        """)
    assert [host.name for host in found.hosts] == ["gpu-008", "gpu-009", "gpu-010", "gpu-012", "login"]
    last = found.hosts[3]
    assert last.addresses == (Address(host="100.64.0.4", port=22), Address(host="10.0.0.12"))
    assert (last.user, last.vars["gpu"], last.vars["ssh_host"]) == ("root", "8x H100", "root@10.0.0.12")
    assert (last.where.line, last.where.column) == (3, 3)
    assert found.groups["eu-1"] == ("gpu-008", "gpu-009", "gpu-010", "gpu-012")


RANGES = [
    ("gpu-[1-2]: {}", {"gpu-1": "gpu-1", "gpu-2": "gpu-2"}),
    ("'r[1-2]-g[01-02]': {ssh_host: '10.0.[1-2].[1-2]'}", {"r1-g01": "10.0.1.1", "r1-g02": "10.0.1.2", "r2-g01": "10.0.2.1", "r2-g02": "10.0.2.2"}),
    ("g[1-2]: {ssh_host: 'g[1-2].cluster.local'}", {"g1": "g1.cluster.local", "g2": "g2.cluster.local"}),
    ("g[2,1]: {ssh_host: '10.0.0.[5,7]'}", {"g2": "10.0.0.5", "g1": "10.0.0.7"}),
    ("v[1-2]: {ssh_host: gate, ssh_port: '[2201-2202]'}", {"v1": "gate:2201", "v2": "gate:2202"}),
    ("g[1-2]: {ssh_host: '2001:db8::[1-2]'}", {"g1": "2001:db8::1", "g2": "2001:db8::2"}),
    ("g[1-2]: {ssh_host: <to-do>}", {"g1": "", "g2": ""}),
    ("g[1-2]: {transport: local, ssh_host: x}", {"g1": "", "g2": ""}),
    ("g[1-2]: {ssh_host: 10.1.1.1, ssh_proxy: 'p[1-2]'}\n  p[1-2]:", {"g1": "10.1.1.1", "g2": "10.1.1.1", "p1": "p1", "p2": "p2"}),
    ("g[1]: {ssh_host: '[2001:db8::1]'}", {"g1": "2001:db8::1"}),
    ("g[1-7/3]:", {"g1": "g1", "g4": "g4", "g7": "g7"}),
]  # fmt: skip


@every_row("text, expected", RANGES)
def test_what_ranges_stand_for(text, expected):
    assert ways(f"hosts:\n  {text}\n") == expected


WRONG = [
    ("g[1-4]: {ssh_host: '10.0.0.[1-3]'}", "2:12: hosts.g[1-4].ssh_host: '10.0.0.[1-3]' stands for 3, and the name of the entry for 4"),
    ("g[4-1]:", "2:3: hosts.g[4-1]: the name 'g[4-1]' has a range that ends before it begins"),
    ("'g[1-4':", "2:3: hosts.g[1-4: the name 'g[1-4' has a '[' without its other bracket"),
    ("g1-4]:", "2:3: hosts.g1-4]: the name 'g1-4]' has a ']' without its other bracket"),
    ("'g[1:4]':", "2:3: hosts.g[1:4]: the name 'g[1:4]' has something else than numbers and ranges between [ and ]"),
    ("g[01-4]:", "2:3: hosts.g[01-4]: the name 'g[01-4]' has a range whose ends have different numbers of digits (01-4)"),
    ("g[1-9/0]:", "2:3: hosts.g[1-9/0]: the name 'g[1-9/0]' has a range with steps of 0"),
    ("g[1-100001]:", "2:3: hosts.g[1-100001]: the name 'g[1-100001]' stands for more than 100000 hosts"),
    ("g[0-999][0-999]:", "stands for more than 100000 hosts"),
    ("g[1-2]: {ssh_host: 10.0.0.1}", "2:12: hosts.g[1-2].ssh_host: '10.0.0.1' would be the address of all 2 hosts of the entry (give it a range"),
    ("g[1-2]: {ssh_host: 'h[1-2]', tailscale_ip: 100.64.0.1}", "2:32: hosts.g[1-2].tailscale_ip: '100.64.0.1' would be the address of all 2"),
    ("g[1-2]: {tailscale_ip: 100.64.0.1, ssh_port: '[31-32]'}", "2:12: hosts.g[1-2].tailscale_ip: '100.64.0.1' would be the address of all 2"),
    ("g[1-2]: {cloudflare_tunnel: t.example}", "2:12: hosts.g[1-2].cloudflare_tunnel: 't.example' would be the address"),
    ("g[1-2]: {ssh_host: 'h[2-1]'}", "2:12: hosts.g[1-2].ssh_host: 'h[2-1]' has a range that ends before it begins"),
    ("g[1-2]: {ssh_port: '[22-23', ssh_host: 'h[1-2]'}", "2:12: hosts.g[1-2].ssh_port: '[22-23' has a '['"),
    ("g[1-900]: {ssh_user: 'a b'}", "2:14: hosts.g[1-900].ssh_user: expected one word"),
    ("'g [1-900]':", "2:3: hosts.g [1-900]: the host name 'g 1' cannot be used"),
    ("g[1-900]: {stauts: ready}", "2:14: hosts.g[1-900].stauts: unknown field (did you mean status?)"),
    ("g[1-900]: 3", "2:3: hosts.g[1-900]: expected a mapping of fields, not 3"),
    ("g[1-900]: {ssh_proxy: gw}", "2:14: g1: ssh_proxy: no host of the inventory is called gw"),
]  # fmt: skip


@every_row("text, said", WRONG)
def test_a_mistake_in_a_range_is_said_once_with_its_place(text, said):
    (problem,) = mistakes(f"hosts:\n  {text}\n")
    assert said in problem
    assert problem.startswith("a.yaml:2:")


def test_a_host_beside_a_range_that_has_it_is_an_error_with_both_places_and_with_what_the_range_would_be_without_it():
    (said,) = mistakes("hosts:\n  gpu-[001-128]:\n  gpu-007: {status: draining}\n")
    assert said == (
        "a.yaml:3:3: the host gpu-007 is also in a.yaml:2:3 "
        "(keep one of them, or leave the range without it: gpu-[001-006,008-128])"
    )
    (said,) = mistakes("hosts:\n  gpu-[1-9]:\n  gpu-[7-12]:\n")
    assert said.startswith("a.yaml:3:3: the hosts gpu-[7-9] are also in a.yaml:2:3 ")
    (said,) = mistakes("hosts:\n  gpu-[1,1]:\n")
    assert said.startswith("a.yaml:2:3: the host gpu-1 is also in a.yaml:2:3")
    assert len(mistakes("hosts:\n  gpu-[1-500]:\n", "hosts:\n  gpu-[1-500]:\n")) == 1


def test_lists_and_the_old_form_may_have_ranges_too():
    assert ways("hosts: [{name: 'g[1-2]', host: '10.0.0.[1-2]', port: '[31-32]'}]") == {
        "g1": "10.0.0.1:31", "g2": "10.0.0.2:32"
    }  # fmt: skip
    assert ways("vast_hosts:\n  v[1-2]: {host: gate, port: '[31-32]'}") == {"v1": "gate:31", "v2": "gate:32"}
    (said,) = mistakes("hosts:\n- {name: 'g[1-2]', host: '10.0.0.[1-3]'}")
    assert said.startswith("a.yaml:2:20: hosts.0.host: '10.0.0.[1-3]' stands for 3")


def test_groups_name_hosts_by_ranges():
    found = inventory("hosts:\n  gpu-[01-16]:\ngroups:\n  rack: ['gpu-[01-03]', gpu-07]")
    assert found.groups["rack"] == ("gpu-01", "gpu-02", "gpu-03", "gpu-07")
    text = "hosts:\n  gpu-[01-16]:\ngroups:\n  rack: [{}]"
    assert "'gpu-[3-1]' has a range that ends" in mistakes(text.format("'gpu-[3-1]'"))[0]
    (said,) = mistakes(text.format("'gpu-[15-90]'"))
    assert said.endswith("groups.rack: there are no hosts gpu-[17-90]")
    assert "no host is called gpu-17" in mistakes(text.format("'gpu-[15-17]'"))[0]


def test_as_many_hosts_as_may_be_are_read_and_no_more(monkeypatch):
    assert hosts.MOST_NAMES == name_ranges.MOST_NAMES == 100_000
    for module in (hosts, name_ranges):
        monkeypatch.setattr(module, "MOST_NAMES", 1000)
    assert len(inventory("hosts:\n  n[000-999]: {ssh_host: '10.0.[0-9].[0-99]'}").hosts) == 1000
    said = mistakes("hosts:\n  n[1-999]:\n  m[1-999]:\n")
    assert said == ["a.yaml:3:3: the file names more than 1000 hosts up to here"]
