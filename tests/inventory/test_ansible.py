"""Inventories of Ansible, in YAML and in INI, come to the hosts that Ansible would connect to."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from runbook.commands.input_files import read_inventory
from runbook.commands.secret_masking import secrets_on_command_line
from runbook.errors import ConfigError
from runbook.inventory.host_patterns import select
from runbook.values.inventory import Inventory
from tests.support.program import runbook
from tests.support.tables import every_row


def written(folder: Path, text: str, **beside: str) -> Inventory:
    """The inventory of *text*, with files *beside* it (``group_vars__web``)."""
    for name, content in beside.items():
        path = folder / (name.replace("__", "/") + ".yml")
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(content))
    (folder / "hosts").write_text(dedent(text))
    return read_inventory([folder / "hosts"])


def mistake(folder: Path, text: str, **beside: str) -> str:
    with pytest.raises(ConfigError) as caught:
        written(folder, text, **beside)
    return str(caught.value).replace(f"{folder}/", "")


def reasons(found: Inventory) -> dict[str, str]:
    return {each.host: each.why for each in select(found, "all", False, may_be_none=True).left_out}


def ways(found: Inventory) -> dict[str, str]:
    """Each host with its user, addresses and transport, in one text."""
    return {
        host.name: f"{host.user}@{','.join(map(str, host.addresses))}{' local' if host.transport == 'local' else ''}"
        for host in found.hosts
    }


INI = """
    # hosts of no group come first
    lone ansible_host=192.0.2.1 ansible_user=ops
    ; another comment
    [web]
    web[01:05:2].example.net ansible_user='deploy user' # every second
    gate:2222
    [db]
    db-[a:c] size=3 name="two words" flag=True text='"3"'
    web01.example.net   ansible_port=2200
    [prod:children]
    web
    db
    [prod:vars]
    ansible_user=prod # part of the value
    tier = 1
    [all:vars]
    ansible_ssh_private_key_file=~/.ssh/all
"""


def test_an_ini_inventory_has_ranges_ports_children_and_variables(tmp_path):
    found = written(tmp_path, INI.replace("'deploy user'", "deploy").replace("=prod # part of the value", "=prod"))
    assert ways(found) == {
        "lone": "ops@192.0.2.1",
        "web01.example.net": "deploy@web01.example.net:2200",
        "web03.example.net": "deploy@web03.example.net",
        "web05.example.net": "deploy@web05.example.net",
        "gate": "prod@gate:2222",
        "db-a": "prod@db-a",
        "db-b": "prod@db-b",
        "db-c": "prod@db-c",
    }
    by_name = {host.name: host for host in found.hosts}
    assert by_name["db-a"].vars["size"] == 3
    assert by_name["db-a"].vars["name"] == "two words"
    assert by_name["db-a"].vars["flag"] is True
    assert by_name["db-a"].vars["text"] == "3"
    assert by_name["gate"].vars["tier"] == 1
    assert by_name["gate"].key.endswith("/.ssh/all")
    assert found.groups["prod"] == tuple(by_name)[1:]
    assert found.groups["db"] == ("web01.example.net", "db-a", "db-b", "db-c")
    assert by_name["web01.example.net"].vars["group_names"] == ["db", "prod", "web"]
    assert "group_names" in by_name["lone"].vars
    assert "all" not in found.groups
    assert str(by_name["gate"].where).endswith("hosts:7:1")


YAML = """
    all:
      vars: {ansible_user: everyone, color: none}
      hosts:
        lone:
      children:
        web:
          hosts:
            web[1:2]: {ansible_host: 192.0.2.9}
            web3: {ansible_ssh_host: 192.0.2.3, ansible_ssh_port: '2022'}
          vars: {color: blue}
        prod:
          vars: {color: red, ansible_user: prod}
          children:
            web:
        here:
          hosts: me
          vars: {ansible_connection: local}
"""


def test_a_yaml_inventory_comes_to_the_same(tmp_path):
    found = written(tmp_path, YAML)
    assert ways(found) == {
        "lone": "everyone@lone",
        "web1": "prod@192.0.2.9",
        "web2": "prod@192.0.2.9",
        "web3": "prod@192.0.2.3:2022",
        "me": "everyone@ local",
    }
    assert {host.name: host.vars["color"] for host in found.hosts} == {
        "lone": "none", "web1": "blue", "web2": "blue", "web3": "blue", "me": "none",
    }  # fmt: skip
    assert found.groups["prod"] == ("web1", "web2", "web3")


def test_groups_without_all_are_read(tmp_path):
    found = written(tmp_path, "a: {hosts: {h1: {ansible_port: 22}, h2: }}\nb: {children: {a: }, vars: {x: 1}}")
    assert ways(found) == {"h1": "@h1:22", "h2": "@h2"}
    assert [host.vars["x"] for host in found.hosts] == [1, 1]


@every_row(
    ("text", "user"),
    [
        ("[a]\nh ansible_port=1\n[b]\nh\n[a:vars]\nansible_user=a\n[b:vars]\nansible_user=b", "b"),
        ("[a]\nh\n[b]\nh\n[a:vars]\nansible_user=a\nansible_group_priority=5\n[b:vars]\nansible_user=b", "a"),
        ("[b]\nh\n[z:children]\nb\n[z:vars]\nansible_user=z\n[b:vars]\nansible_user=b", "b"),
        ("[b]\nh\n[z:children]\nb\n[z:vars]\nansible_user=z\nansible_group_priority=9\n[b:vars]\nansible_user=b", "b"),
        ("[b]\nh\n[all:vars]\nansible_user=all\n[b:vars]\nansible_user=b", "b"),
        ("[b]\nh ansible_user=h\n[b:vars]\nansible_user=b\nansible_group_priority=9", "h"),
        ("[a]\nh ansible_user=1st\n[b]\nh ansible_user=2nd\n[a]\nh ansible_user=3rd", "3rd"),
        ("h ansible_user=h\n[ungrouped:vars]\nansible_user=u", "h"),
    ],
)
def test_whose_variable_counts(tmp_path, text, user):
    """Mutants: in_order without the depth, the priority or the name; host variables below those of groups."""
    assert written(tmp_path, text).hosts[0].user == user


def test_directories_of_variables_go_before_the_file(tmp_path):
    found = written(
        tmp_path,
        "[web]\nh1\nh2 ansible_port=1\n[web:vars]\nansible_user=file\nx=file",
        group_vars__all="ansible_user: all\nx: all",
        group_vars__web="x: web",
        host_vars__h2="ansible_port: 2",
    )
    assert ways(found) == {"h1": "all@h1", "h2": "all@h2:2"}
    assert [host.vars["x"] for host in found.hosts] == ["web", "web"]
    other = written(tmp_path, "[web]\nh1\nh2 ansible_port=1", group_vars__web="x: other")
    assert other.digest != found.digest


def test_a_mistake_in_a_file_of_variables_has_its_place(tmp_path):
    said = mistake(tmp_path, "[web]\nh1\n[web:vars]\nx=1", group_vars__web="y: 1\nansible_port: many")
    assert said == "group_vars/web.yml:2:1: h1.ansible_port: expected a port from 1 to 65535, not 'many'"


def test_a_file_of_variables_that_others_can_write_is_refused(tmp_path):
    written(tmp_path, "[web]\nh1", group_vars__web="y: 1")
    (tmp_path / "group_vars/web.yml").chmod(0o666)
    with pytest.raises(ConfigError, match="other users can write to"):
        read_inventory([tmp_path / "hosts"])


@every_row(
    ("variables", "why"),
    [
        ("ansible_host='{{ ip }}'", "ansible_host is a template, which is not evaluated here (hosts:2:4)"),
        ("ansible_user='{{ who }}'", "ansible_user is a template, which is not evaluated here (hosts:2:4)"),
        ("x=1 ansible_port='{{ 1 }}'", "ansible_port is a template, which is not evaluated here (hosts:2:8)"),
        ("ansible_connection=docker", "the connection docker is not supported, only ssh and local (hosts:2:4)"),
        ("ansible_host='$ANSIBLE_VAULT;1.1'", "ansible_host is encrypted by Ansible Vault, which is not read here (hosts:2:4)"),
        ("ansible_ssh_common_args='-o ProxyCommand=x'", "ansible_ssh_common_args leads another way, which is not read: write ssh_proxy, or ssh_config (hosts:2:4)"),
        ("ansible_ssh_extra_args='-F x'", "ansible_ssh_extra_args leads another way, which is not read: write ssh_proxy, or ssh_config (hosts:2:4)"),
        ("ansible_ssh_common_args='-o StrictHostKeyChecking=no'", None),
        ("ansible_connection=ansible.builtin.ssh", None),
        ("ansible_host='<public-ip>'", "address is a placeholder: <public-ip>"),
    ],
)  # fmt: skip
def test_a_host_that_cannot_be_meant_is_left_out_even_by_name(tmp_path, variables, why):
    found = written(tmp_path, f"[web]\nh1 {variables}\nh2 ansible_port=22")
    told = {name: reason.replace(f"{tmp_path}/", "") for name, reason in reasons(found).items()}
    assert told == ({"h1": why} if why else {})
    if why:
        with pytest.raises(ConfigError, match="every host of 'h1' is left out"):
            select(found, "h1", True)
        assert found.hosts[0].addresses == ()


@every_row(
    ("text", "said"),
    [
        ("[web]\nh1 ansible_port=x", "hosts:2:4: h1.ansible_port: expected a port from 1 to 65535, not 'x'"),
        ("[web]\nh1 ansible_port=1 loose", "hosts:2:19: expected NAME=VALUE behind the host (put a value with spaces in quotes)"),
        ("[web]\nh1 ansible_user='x", "hosts:2:17: a quote that is not closed"),
        ("[web]\nh[1:x] ansible_port=1", "hosts:2:1: the host pattern has a range that is neither of numbers nor of single letters"),
        ("[web]\nh[5:1] ansible_port=1", "hosts:2:1: the host pattern has a range that ends before it begins"),
        ("[web]\nh[01:100] ansible_port=1", "hosts:2:1: the host pattern has a range with leading zeros whose ends are not of one length"),
        ("[web]\nh[1:9:0] ansible_port=1", "hosts:2:1: the host pattern has a range whose step is not a number from 1"),
        ("[web]\nh1\n[web:child]\na\n[web:vars]\nx=1", "hosts:3:1: the section [web:child] is of an unknown kind (did you mean children?)"),
        ("[web]\nh1\n[wbe:vars]\nx=1", "hosts:3:1: [wbe:vars] is of the group wbe, which the file does not have (did you mean web?)"),
        ("[web]\nh1\n[all:children]\nwbe", "hosts:4:1: [all:children] names the group wbe, which the file does not have (did you mean web?)"),
        ("[web]\nh1\n[web:vars]\njust words", "hosts:4:1: expected NAME=VALUE"),
        ("[web]\nh1 ansible_host=a ansible_ssh_host=b", "hosts:2:19: h1: ansible_host and ansible_ssh_host say different things (keep ansible_host)"),
        ("[web]\nh1\n[web:vars]\nansible_group_priority=high", "hosts:4:1: web: ansible_group_priority: expected a number, not 'high'"),
        ("[a:children]\nb\n[b:children]\nc\n[c:children]\na\n[c]\nh1", "hosts:6:1: the group a is inside itself: a in c in b in a"),
        ("all: {hosts: {h1: }, childen: {}}\nweb: {hosts: {h2: }}", "hosts:1:22: all: a group has no key 'childen' (did you mean children?)"),
        ("web: {hosts: {h1: }}\nprod: {hosts: [h2]}", "hosts:2:8: prod.hosts: expected a mapping of names, each with a colon behind it, not a list"),
        ("a: {children: {b: {children: {a: }}}, hosts: {h: }}", None),
    ],
)  # fmt: skip
def test_mistakes_have_their_line(tmp_path, text, said):
    found = mistake(tmp_path, text)
    assert found.startswith("hosts:1:") and "is inside itself: a in b in a" in found if said is None else found == said


@every_row("text", [
    "[project]\nname = 'x'\n", "[Unit]\nDescription=A\n", "h1\nh2\n", "Host a\n  HostName ansible\n", "[a]\nx: y: z\n",
    "-----BEGIN KEY-----\nsecretsecret\n", "just some words\n", "- hosts: web\n  tasks: []\n", "[web\n", "x = [1,\n",
])  # fmt: skip
def test_a_file_of_another_kind_keeps_its_message(tmp_path, text):
    said = mistake(tmp_path, text)
    assert "secretsecret" not in said
    words = ("not an inventory in a known format", "while", "expected", "not allowed", "is never closed")
    assert any(word in said for word in words)
    assert "NAME=VALUE" not in said
    assert "[group]" not in said


def test_secrets_are_masked_and_never_in_messages(tmp_path):
    text = "[web]\nh1 ansible_password=hunter22hunter ansible_port=x loose\nh2 ansible_ssh_pass=hunter33hunter\n"
    assert "hunter" not in mistake(tmp_path, text)
    assert "hunter" not in mistake(tmp_path, text.replace(" loose", ""))
    found = written(
        tmp_path, text.replace(" ansible_port=x loose", ""), group_vars__web="ansible_become_pass: hunter44hunter"
    )
    assert {"hunter22hunter", "hunter33hunter", "hunter44hunter"} <= {*found.secrets}
    assert "hunter" not in str(found.hosts)
    assert "hunter44hunter" in secrets_on_command_line("", [str(tmp_path / "hosts")])


def test_what_a_vault_has_encrypted_is_not_shown(tmp_path):
    found = written(
        tmp_path,
        """
        all:
          hosts:
            h1:
              plain: !vault |
                $ANSIBLE_VAULT;1.1;AES256
                6162636465
              ansible_port: 22
            h2:
              ansible_host: !vault |
                $ANSIBLE_VAULT;1.1;AES256
                6162636465
        """,
    )
    assert "6162636465" not in str(found.hosts) + str(reasons(found))
    assert found.hosts[0].vars["plain"] == "***"
    assert list(reasons(found)) == ["h2"]


def test_a_host_whose_own_file_is_encrypted_is_left_out_where_nothing_else_says_its_address(tmp_path):
    """It may stand in that file. Mutants: the file is left aside without a word; a known address is not believed."""
    for name in ("h1", "h2/secrets.yml"):
        file = tmp_path / "host_vars" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("$ANSIBLE_VAULT;1.1;AES256\n6162636465\n")
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all").write_text("$ANSIBLE_VAULT;1.1;AES256\n6162636465\n")
    found = written(tmp_path, "h1 ansible_host=192.0.2.1\nh2 ansible_user=x\nh3 ansible_user=x\n")
    assert list(reasons(found)) == ["h2"]
    assert "is encrypted by Ansible Vault, which is not read here" in reasons(found)["h2"]
    assert f"{tmp_path}/host_vars/h2/secrets.yml:1:1" in reasons(found)["h2"]


def test_a_file_of_variables_that_is_encrypted_as_a_whole_is_said_for_the_chosen_hosts(tmp_path):
    """Mutants: no warning; one for a group that no chosen host is in; the last group only; the second file of a group hides the first."""
    for name in ("group_vars/web/a.yml", "group_vars/web/b.yml", "group_vars/db", "group_vars/rack", "host_vars/h1"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("$ANSIBLE_VAULT;1.1;AES256\n6162636465\n")
    found = written(tmp_path, "[web]\nh[1:3] ansible_host=192.0.2.1\n[db]\nd1\n[rack]\nh1\n[alone]\na1\n")
    said = {pattern: select(found, pattern, include_not_ready=False).warnings for pattern in ("web", "h1", "d1", "a1")}
    words = "is encrypted by Ansible Vault and not read: a user, port or key of"
    assert said["web"] == (
        f"{tmp_path}/group_vars/rack {words} h1 in it is not known",
        f"{tmp_path}/group_vars/web/a.yml {words} h[1-3] in it is not known",
        f"{tmp_path}/group_vars/web/b.yml {words} h[1-3] in it is not known",
        f"{tmp_path}/host_vars/h1 {words} h1 in it is not known",
    )
    assert said["h1"][1] == f"{tmp_path}/group_vars/web/a.yml {words} h1 in it is not known"
    assert said["d1"] == (f"{tmp_path}/group_vars/db {words} d1 in it is not known",)
    assert said["a1"] == ()
    assert "whole file" not in str([host.vars for host in found.hosts])


def test_a_range_of_a_hundred_thousand_hosts_is_refused(tmp_path):
    assert mistake(tmp_path, "[web]\nh[1:100000] ansible_port=22").endswith("stands for more than 20000 hosts")
    assert "more than 20000 hosts" in mistake(tmp_path, "all: {hosts: {'h[1:99][1:9999]': }}")
    lines = "".join(f"{letter}[1:10000] ansible_port=22\n" for letter in "abc")
    assert "names more than 20000 hosts" in mistake(tmp_path, f"[web]\n{lines}")


def test_ten_thousand_hosts_are_read(tmp_path):
    found = written(tmp_path, "[web]\nh[00001:10000] ansible_user=x\n[web:vars]\ny=1")
    assert len(found.groups["web"]) == 10_000
    assert found.hosts[-1].name == "h10000"


def test_groups_nested_too_deep_are_a_mistake(tmp_path):
    """Mutants: ancestors of every group of a chain, without a bound."""
    chain = "".join(f"[g{number}:children]\ng{number + 1}\n" for number in range(3000))
    assert "is inside more than 50 groups" in mistake(tmp_path, f"{chain}[g3000]\nh1\n")


def test_the_command_line_shows_an_ini_inventory(tmp_path):
    (tmp_path / "hosts.ini").write_text("[web]\nweb[1:2] ansible_user=ops\nbad ansible_connection=winrm\n")
    said = runbook("hosts", "-i", "hosts.ini", "web", cwd=tmp_path)
    assert "web1" in said.out
    assert "the connection winrm is not supported" in said.out
