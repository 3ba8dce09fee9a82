"""The settings of the server, and every mistake in them with its place."""

from __future__ import annotations

import os

import pytest
import yaml

from runbook.commands.serve.access import Role
from runbook.commands.serve.app import access_by
from runbook.commands.serve.command import new_token_lines
from runbook.commands.serve.settings import LISTEN, SESSION, ServeSettings, Tls, load_settings, read_settings
from runbook.errors import ConfigError

A, B = "a" * 64, "b" * 64
TOKEN = f"tokens:\n  - {{name: anna, role: approve, digest: {A}}}\n"


def test_without_keys_it_listens_here_and_lets_nobody_in():
    made = load_settings("session: 8h\n", "serve.yaml")
    assert made == ServeSettings()
    assert (made.listen, made.host, made.port, made.session) == (LISTEN, "127.0.0.1", 8420, SESSION)


def test_all_keys_are_read():
    text = f"""\
listen: "[::]:443"
names: [runbook.example, 10.0.0.5]
tls: {{cert: c.pem, key: k.pem}}
session: 30m
tokens:
  - {{name: alertmanager, role: alert, digest: {A}}}
  - {{name: anna@example.org, role: admin, digest: {B}}}
"""
    made = load_settings(text, "serve.yaml")
    assert (made.host, made.port, made.session, made.is_secure) == ("::", 443, 1800.0, True)
    assert made.names == ("runbook.example", "10.0.0.5")
    assert made.tls == Tls(cert="c.pem", key="k.pem")
    assert [(each.name, each.role, each.digest) for each in made.tokens] == [
        ("alertmanager", Role.ALERT, A),
        ("anna@example.org", Role.ADMIN, B),
    ]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("listen: here\n", ["serve.yaml:1:1: listen: 'here' is no address with a port"]),
        ("listen: 127.0.0.1:0\n", ["serve.yaml:1:1: listen:"]),
        ("listen: 127.0.0.1:70000\n", ["serve.yaml:1:1: listen:"]),
        ("listen: 300.0.0.1:80\n", ["serve.yaml:1:1: listen:"]),
        ("listen: 0.0.0.0:80\n", ["serve.yaml:1:1: listen: 0.0.0.0:80 is reached", "serve.yaml:1:1: listen: 0.0.0.0:80 is"]),
        (TOKEN + "listen: 10.0.0.5:80\n", ["serve.yaml:3:1: listen: 10.0.0.5:80 is reached from other machines, and tokens"]),
        ("behind_proxy: true\nlisten: 10.0.0.5:80\n", ["serve.yaml:2:1: listen: 10.0.0.5:80 is reached from other machines, and there are no tokens"]),
        ("tls: {cert: c}\n", ["serve.yaml:1:1: "]),
        ("tls: {cert: c, key: k}\nbehind_proxy: true\n", ["serve.yaml:2:1: behind_proxy:"]),
        ("public_metrics: true\nbehind_proxy: true\n", ["serve.yaml:1:1: public_metrics:"]),
        ("session: soon\n", ["serve.yaml:1:1: session:"]),
        ("names: [ok.example, 'https://x.example', 'x:80']\n", ["serve.yaml:1:21: names: 'https", "serve.yaml:1:42: names: 'x:80'"]),
        ("listens: 127.0.0.1:80\n", ["serve.yaml:1:1: "]),
        ("tokens:\n  - {name: anna, role: king, digest: " + A + "}\n", ["serve.yaml:2:18: "]),
        ("tokens:\n  - {name: anna, role: view, digest: secret}\n", ["serve.yaml:2:30: "]),
        ("tokens:\n  - {name: anna, role: view, digest: " + A.upper() + "}\n", ["serve.yaml:2:30: "]),
        ("tokens:\n  - {name: anna, role: view, token: secret}\n", ["serve.yaml:2:"]),
        ("tokens:\n  - {name: '', role: view, digest: " + A + "}\n", ["serve.yaml:2:6: "]),
        (TOKEN + f"  - {{name: anna, role: view, digest: {B}}}\n", ["serve.yaml:3:6: two tokens have the same name"]),
        (TOKEN + f"  - {{name: bob, role: view, digest: {A}}}\n", ["serve.yaml:3:29: two tokens have the same digest"]),
        ("listen: x\nsession: soon\n", ["serve.yaml:1:1: listen:", "serve.yaml:2:1: session:"]),
        ("- listen\n", ["serve.yaml:1:1: the settings are a mapping"]),
        ("listen: [\n", ["serve.yaml:"]),
    ],
)  # fmt: skip
def test_each_mistake_has_its_place(text, places):
    with pytest.raises(ConfigError) as error:
        load_settings(text, "serve.yaml")
    lines = str(error.value).splitlines()
    assert any(line.startswith(places[0]) for line in lines), lines
    assert all(any(line.startswith(place) for line in lines) for place in places), lines


@pytest.mark.parametrize("listen", ["127.0.0.1:80", "localhost:80", '"[::1]:80"', "127.8.9.1:80"])
def test_this_machine_needs_no_tls(listen):
    assert load_settings(f"listen: {listen}\npublic_metrics: true\n", "serve.yaml").public_metrics


def private(path, text: str = TOKEN):
    path.parent.chmod(0o700)
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602])
def test_a_file_that_others_can_read_or_write_is_refused(tmp_path, mode):
    file = private(tmp_path / "serve.yaml")
    assert read_settings(file).tokens[0].name == "anna"
    file.chmod(mode)
    with pytest.raises(ConfigError, match=r"other users can (read|write)"):
        read_settings(file)


def test_a_folder_that_others_can_write_to_is_refused(tmp_path):
    file = private(tmp_path / "serve.yaml")
    os.chmod(tmp_path, 0o777)
    with pytest.raises(ConfigError, match="other users can write"):
        read_settings(file)


def test_a_key_that_others_can_read_is_refused(tmp_path):
    file = private(tmp_path / "serve.yaml", TOKEN + "tls: {cert: c.pem, key: k.pem}\n")
    private(tmp_path / "c.pem").chmod(0o644)
    key = private(tmp_path / "k.pem")
    assert read_settings(file).tls == Tls(cert=str(tmp_path / "c.pem"), key=str(key))
    key.chmod(0o640)
    with pytest.raises(ConfigError, match=r"k.pem: other users can read it"):
        read_settings(file)


def test_an_address_that_is_listened_on_is_a_name_of_the_server():
    def hears(settings: ServeSettings, host: str) -> bool:
        return access_by(settings)._is_ours(host)

    assert hears(ServeSettings(listen="10.0.0.5:80"), "10.0.0.5:80")
    assert hears(ServeSettings(listen="[fd00::1]:80"), "[fd00::1]:80")
    assert hears(ServeSettings(listen="0.0.0.0:80", names=("fd00::1",)), "[fd00::1]")
    assert not hears(ServeSettings(listen="0.0.0.0:80"), "0.0.0.0:80")


@pytest.mark.parametrize("name", ["", "a: b", "{a}", "no\nbody", "-x", "'q'"])
def test_a_token_is_for_a_name_that_the_settings_permit(name):
    with pytest.raises(ConfigError, match="is no name"):
        new_token_lines(name, "view")


def test_the_line_of_a_token_is_one_for_the_settings():
    (entry,) = yaml.safe_load(new_token_lines("no", "view")[-1])
    assert (entry["name"], entry["role"]) == ("no", "view")
