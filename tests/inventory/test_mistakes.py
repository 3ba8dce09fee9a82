"""Whatever is wrong in a file is said, all of it, with its place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runbook.errors import ConfigError
from runbook.inventory import read
from runbook.inventory.host_patterns import select
from runbook.values.playbook import Where
from tests.support.parse_text import mistakes
from tests.support.tables import every_row


def test_eight_mistakes_are_said_at_once_each_with_its_place():
    said = mistakes("""
        hosts:
          n1:
            ssh_port: abc
            ssh_host: [10.0.0.1]
          n2: {ssh_port: 70000}
          n3: just text
          "n 4": {}
          n5:
            is_ephemeral: perhaps
            ssh_user: "two words"
            cloudflare_tunnel: "a;b"
        """)
    assert said == [
        "a.yaml:4:5: hosts.n1.ssh_port: expected a port from 1 to 65535, not 'abc'",
        "a.yaml:5:5: hosts.n1.ssh_host: expected text, not a list",
        "a.yaml:6:8: hosts.n2.ssh_port: expected a port from 1 to 65535, not 70000",
        "a.yaml:7:3: hosts.n3: expected a mapping of fields, not 'just text'",
        "a.yaml:8:3: hosts.n 4: the host name 'n 4' cannot be used (a name may have letters, digits and . _ - : +)",
        "a.yaml:10:5: hosts.n5.is_ephemeral: expected true or false, not 'perhaps'",
        "a.yaml:11:5: hosts.n5.ssh_user: expected one word that does not begin with '-', not 'two words'",
        "a.yaml:12:5: hosts.n5.cloudflare_tunnel: expected the host name of a tunnel, not 'a;b'",
    ]


def test_the_mistakes_of_every_file_are_said_at_once():
    said = mistakes("hosts: {a: {ssh_port: x}}", "hosts: {b: {ssh_port: y}}\ngroups: 3")
    assert [it.split(":")[0] for it in said] == ["a.yaml", "b.yaml", "b.yaml"]


@every_row("port", ["abc", "0", "-1", "65536", "22.0", "2 2", "true", "[22]", "'²'", "1e3", "'" + "9" * 5000 + "'"])
def test_what_is_no_port_is_refused(port):
    (said,) = mistakes(f"hosts: {{a: {{ssh_port: {port}}}}}")
    assert said.startswith("a.yaml:1:13: hosts.a.ssh_port: expected a port from 1 to 65535, not ")
    assert len(said) < 200


@every_row(
    "address",
    ["10.1", "'-oProxyCommand=x'", "'a b'", "'10.0.0.1:2222'", "'ops@'", "'@a'", "'http://a'", "'a;b'", "{a: b}"],
)
def test_what_is_no_address_is_refused(address):
    (said,) = mistakes(f"hosts: {{a: {{ssh_host: {address}}}}}")
    assert said.startswith("a.yaml:1:13: hosts.a.ssh_host: expected ")


def test_a_port_in_an_address_is_told_where_it_goes():
    assert mistakes("hosts: {a: {ssh_host: '10.0.0.1:2222'}}")[0].endswith("(the port goes into ssh_port)")


def test_a_mistake_in_the_old_form_names_the_field_as_it_is_written():
    assert mistakes("vast_hosts: {v: {port: x}}")[0].startswith("a.yaml:1:18: vast_hosts.v.port: expected a port")
    assert mistakes("hosts: [{name: v, port: x}]")[0].startswith("a.yaml:1:19: hosts.0.port: expected a port")


@every_row(
    ("text", "said"),
    [
        ("", "the file is empty (an inventory has `hosts:`"),
        ("{}", "the file is empty"),
        ("just text", "not an inventory in a known format (an inventory has `hosts:`"),
        ("[a, b]", "not an inventory in a known format"),
        ("machines: {a: {}}", "not an inventory in a known format"),
        ("hosts:", "hosts: expected a mapping of host names to their fields, not nothing"),
        ("hosts: a,b", "hosts: expected a mapping of host names to their fields, not 'a,b'"),
        ("hosts: {}", "hosts: names no hosts"),
        ("hosts: []", "hosts: names no hosts"),
        ("hosts: [a]", "hosts.0: expected a mapping with a name, not 'a'"),
        ("hosts: [{host: a}]", "hosts.0: lacks a name"),
        ("standard_hosts:", "standard_hosts: expected a mapping of host names to their fields, not nothing"),
        ("standard_hosts: {}", "standard_hosts: names no hosts"),
        ("hosts: {all: {}}", "the host name 'all' cannot be used ('all' means every host)"),
        ("hosts: {yes: {}}", "the host name True cannot be used (is not text; put it in quotes)"),
        ("hosts: {'gpu-[1-2]/x': {}}", "the host name 'gpu-1/x' cannot be used"),
        ("hosts: {../x: {}}", "the host name '../x' cannot be used"),
        ("hosts: {a: {gpu: [H100]}}", "hosts.a.gpu: expected text, not a list"),
        ("hosts: {a: {region: no}}", "hosts.a.region: expected text, not False (put it in quotes)"),
    ],
)
def test_a_file_that_is_no_inventory_is_told_what_one_has(text, said):
    assert said in "\n".join(mistakes(text))


def test_a_number_may_be_a_name_but_not_beside_the_same_in_quotes():
    assert "the host 1 is also in a.yaml:1:9" in mistakes("hosts: {1: {}, '1': {}}")[0]


def test_no_inventory_at_all_is_a_mistake():
    with pytest.raises(ConfigError, match="no inventory was given"):
        read([])


def test_a_host_that_describes_itself_without_end_is_refused():
    endless: dict[str, object] = {}
    endless["me"] = endless
    with pytest.raises(ConfigError, match="nested too deep"):
        read([({"hosts": {"a": endless}}, "a.yaml", lambda path: Where())])


def test_aliases_that_multiply_are_refused_before_they_fill_the_memory():
    tree: object = "x"
    for _ in range(30):
        tree = [tree] * 10
    with pytest.raises(ConfigError, match="nested too deep"):
        read([({"hosts": {"a": {"b": tree}}}, "a.yaml", lambda path: Where())])


WORDS = st.sampled_from(
    [
        "hosts",
        "groups",
        "a",
        "vast-1",
        "ssh_host",
        "ssh_port",
        "gpu",
        "name",
        "host",
        "port",
        "status",
        "api_token",
        "vast_hosts",
        "standard_hosts",
        "transport",
        "local",
        "ssh_key",
        "role",
        "region",
        "tailscale_ip",
        "is_container",
        "cloudflare_tunnel",
    ]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), WORDS, st.dates(), st.binary(max_size=4)
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.one_of(WORDS, SCALARS), inner, max_size=5)),
    max_leaves=25,
)
FILES = st.one_of(
    TREES,
    st.fixed_dictionaries(
        {"hosts": st.dictionaries(WORDS, st.dictionaries(WORDS, TREES, max_size=6), max_size=4)},
        optional={"groups": st.dictionaries(WORDS, st.one_of(st.lists(WORDS), TREES), max_size=3)},
    ),
)


@pytest.mark.slow
@settings(max_examples=400)
@given(FILES, st.one_of(st.text(max_size=12), WORDS))
def test_any_tree_is_an_inventory_or_a_config_error(tree, pattern):
    try:
        found = read([(tree, "a.yaml", lambda path: Where(file="a.yaml", line=1, column=1))])
    except ConfigError as error:
        found, problems = None, error.problems
    if not found:
        assert problems
        assert all(it.message and it.file for it in problems)
        return
    assert found.hosts
    assert set().union(*found.groups.values()) <= {it.name for it in found.hosts}
    try:
        chosen = select(found, pattern, False)
    except ConfigError:
        return
    assert all(it in found.hosts for it in chosen.hosts)
