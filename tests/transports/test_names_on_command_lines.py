"""No name from an inventory reaches a shell of this machine through ssh_config."""

from __future__ import annotations

import json
import os
import re

import pytest

from runbook.commands.input_files import read_inventory
from runbook.connections import transports
from runbook.connections.transports.ssh import ssh_config as config
from runbook.connections.transports.ssh.private_keys import locked
from runbook.connections.transports.ssh.ssh_config import ssh_config
from runbook.errors import ConfigError, Unreachable
from runbook.protocols import ConnectOptions
from runbook.values.inventory import Address, Host
from runbook.values.login_names import fault_in_host, fault_in_user
from tests.support.tables import every_row
from tests.support.waiting import gone, until
from tests.transports.interrupts import Pressed

CONFIG = """\
Match exec "echo matched %n %h %r >>{log}"
  ServerAliveInterval 5
Host *
  ProxyCommand sh -c "echo proxied %r %h %n >>{log}; sleep 0.1"
"""

BAD = (
    "$(touch {made})",
    "`touch {made}`",
    "x;touch {made}",
    "x|touch {made}",
    "x&touch {made}",
    "x'touch",
    'x"touch',
    "x>{made}",
    "x<{made}",
    "{{x",
    "-oProxyCommand=x",
    "a b",
    "a\tb",
    "a\nProxyCommand touch {made}",
    "a\x1bb",
    "a\0b",
    "$HOME",
    "a\u2028b",
)
"""Names with which a shell would do something, or ssh_config be read otherwise; ``{made}`` is a file."""


@pytest.fixture
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh" / "config").write_text(CONFIG.format(log=tmp_path / "log"))
    monkeypatch.setenv("HOME", str(folder))
    return folder


@every_row("name", BAD)
@every_row("key", ["ssh_user", "ssh_host", "host part", "user part"])
def test_an_inventory_with_such_a_name_is_refused_with_its_place(name, key, home, tmp_path):
    name = name.format(made="made")
    field, value = {"host part": ("ssh_host", f"root@{name}"), "user part": ("ssh_host", f"{name}@10.0.0.1")}.get(
        key, (key, name)
    )
    text = {"ssh_user": "root", "ssh_host": "127.0.0.9", field: value}
    (tmp_path / "hosts.yaml").write_text(
        "hosts:\n  h:\n" + "".join(f"    {it}: {json.dumps(text[it])}\n" for it in text)
    )
    try:
        (host,) = read_inventory([tmp_path / "hosts.yaml"]).hosts
    except ConfigError as error:
        assert re.match(rf"{tmp_path}/hosts.yaml:[234]:\d+: ", str(error))
    else:
        assert host.placeholder, "or it is an address that somebody has yet to fill in"
        assert host.addresses == ()
        assert key in ("ssh_host", "host part")


@every_row("where", ["user", "address", "jump"])  # who jumps may write to the log, even a little later: it is last
@every_row("name", BAD)
def test_such_a_name_is_refused_again_where_the_connection_is_made(name, where, home, tmp_path):
    log = home.parent / "log"
    log.unlink(missing_ok=True)
    name = name.format(made=tmp_path / "made")
    good = Host(name="h", addresses=(Address(host="127.0.0.9"),), user="root")
    bad = {
        "user": Host(name="h", addresses=good.addresses, user=name),
        "address": Host(name="h", addresses=(Address(host=name),), user="root"),
        "jump": Host(name="h", addresses=good.addresses, via=Host(name="j", addresses=(Address(host=name),))),
    }[where]
    assert locked([Host(name="h", addresses=(Address(host=name),))]) == ()
    with pytest.raises(Unreachable, match="is refused: it "):
        transports.load("ssh").connect(bad, ConnectOptions(connect_timeout=20), Pressed())
    assert not (tmp_path / "made").exists()
    if where != "jump":
        assert not log.exists()


@every_row("name", ["root", "CORP\\jane", "jane.doe", "jane+x", "jane@corp", "svc_1", "ünal", "a-b"])
def test_names_that_people_have_are_taken(name):
    assert fault_in_user(name) == ""


@every_row("name", ["gpu-01.example.org", "10.0.0.1", "fe80::1%eth0", "::1", "gpu_01"])
def test_addresses_that_machines_have_are_taken(name):
    assert fault_in_host(name) == ""


def test_openssh_reads_a_good_name_where_it_stands(home, tmp_path):
    """The names do reach the shell, so that the tests above test something."""
    host = Host(name="h", addresses=(Address(host="127.0.0.9"),), user="jane")
    with pytest.raises(Unreachable):
        transports.load("ssh").connect(host, ConnectOptions(connect_timeout=20), Pressed())
    log = (tmp_path / "log").read_text()
    assert "proxied jane 127.0.0.9" in log
    assert "matched 127.0.0.9" in log


@pytest.fixture
def match_exec(home):
    def write(command: str) -> None:
        (home / ".ssh" / "config").write_text(f'Match exec "{command}"\n  Port 2299\n')

    return write


@pytest.mark.parametrize(("command", "port"), [("true", "2299"), ("false", None), ("test -t 0 || ! read line", "2299")])
def test_match_exec_decides_and_has_nothing_to_read(match_exec, command, port):
    """Mutants: ssh_config.py with our own stdin, or with its exit code turned round."""
    read, write = os.pipe()
    os.write(write, b"yes\n")
    os.close(write)
    kept = os.dup(0)
    try:
        os.dup2(read, 0)
        match_exec(command)
        assert ssh_config().lookup("somewhere").get("port") == port
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(read)


def test_a_match_exec_that_hangs_is_ended_with_what_it_has_started_and_named(match_exec, monkeypatch, tmp_path):
    """Mutants: ssh_config.py killing the shell alone."""
    monkeypatch.setattr(config, "MATCH_EXEC_TIMEOUT", 0.5)
    match_exec(f"sleep 600 & echo $! >{tmp_path}/child; wait")
    with pytest.raises(Unreachable, match=r"a Match exec of your ssh_config did not end within 0\.5 s: sleep 600"):
        ssh_config().lookup("somewhere")
    child = int((tmp_path / "child").read_text())
    until(lambda: gone(child), "what it has started to end")


def test_a_match_exec_without_a_shell_is_said(match_exec, monkeypatch):
    monkeypatch.setenv("SHELL", "/nowhere/sh")
    match_exec("true")
    with pytest.raises(Unreachable, match="/nowhere/sh cannot be run"):
        ssh_config().lookup("somewhere")
