"""Whether a host's key is the one that we know, as OpenSSH's files of known hosts say it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runbook.values.inventory import HostKeys
from tests.support.sshd import make_key, start_sshd
from tests.transports.ssh_login import connected, refusal

pytestmark = [pytest.mark.real("sshd", "root"), pytest.mark.usefixtures("home")]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """An sshd with an ed25519 key and an RSA key."""
    folder = tmp_path_factory.mktemp("two-keys")
    make_key(folder / "rsa", kind="rsa")
    started = start_sshd(folder / "sshd", extra=f"HostKey {folder}/rsa")
    yield started
    started.stop()


@pytest.fixture
def known(home) -> Path:
    """The user's own known_hosts."""
    return home / ".ssh" / "known_hosts"


def host_of(server):
    return server.host(host_keys=HostKeys.ACCEPT_NEW)


def public(path: Path) -> str:
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


def test_a_key_known_by_a_pattern_by_a_hash_or_among_others_is_known(server, interrupt, known, tmp_path):
    key, other = public(server.folder / "host_key"), public(make_key(tmp_path / "other"))
    name = f"[127.0.0.1]:{server.port}"
    hashed = tmp_path / "hashed"
    hashed.write_text(f"{name} {key}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(hashed)], check=True, capture_output=True)
    assert name not in hashed.read_text()
    for text in (
        f"{name} {key}\n",
        f"[127.0.0.*]:{server.port},!example.net {key}\n",
        f"[127.0.0.?]:* {key}",
        hashed.read_text(),
        f"{name} {other}\n# {name} {other}\n\n{name} {key}\n",
        f"@cert-authority * {other}\n{name} {key}\n",
    ):
        known.write_text(text)
        connected(host_of(server), interrupt, strict_host_keys=True).close()
    for text in (f"!{name},* {key}", f"127.0.0.1 {key}", f"# {name} {key}", f"{name}\n"):
        known.write_text(text)
        assert "is not known" in refusal(host_of(server), interrupt, strict_host_keys=True)


def test_a_kind_of_key_that_is_known_is_the_one_that_is_asked_for(server, interrupt, known, tmp_path):
    known.write_text(f"[127.0.0.1]:{server.port} {public(server.folder.parent / 'rsa')}\n")
    connected(host_of(server), interrupt, strict_host_keys=True).close()
    connected(host_of(server), interrupt).close()
    other = public(make_key(tmp_path / "other", kind="ecdsa"))
    known.write_text(f"[127.0.0.1]:{server.port} {other}\n")
    text = refusal(host_of(server), interrupt)
    assert "its host key has changed: expected SHA256:" in text
    assert f"(known from {known}:1)" in text


def test_a_revoked_key_is_refused_also_where_it_is_known(server, interrupt, known):
    key, name = public(server.folder / "host_key"), f"[127.0.0.1]:{server.port}"
    known.write_text(f"{name} {key}\n@revoked * {key}\n")
    assert f"its host key is marked as revoked ({known}:2)" in refusal(host_of(server), interrupt)


def test_a_new_key_that_cannot_be_kept_is_not_accepted_and_the_reason_is_told(server, interrupt, known, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc/nowhere")
    text = refusal(host_of(server), interrupt)
    assert "its host key is new (SHA256:" in text
    assert "cannot be kept to be compared the next time: /proc/nowhere" in text
    known.write_text(f"[127.0.0.1]:{server.port} {public(server.folder / 'host_key')}\n")
    connected(host_of(server), interrupt).close()
    connected(server.host(), interrupt).close()


def test_a_home_that_is_not_there_is_made_where_the_key_is_kept(server, interrupt, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    connected(host_of(server), interrupt).close()
    assert (tmp_path / "nobody" / ".config" / "runbook" / "known_hosts").exists()


def test_known_keys_that_cannot_be_read_are_not_taken_for_unknown(server, interrupt, known):
    known.mkdir()
    for strict in (True, False):
        text = refusal(host_of(server), interrupt, strict_host_keys=strict)
        assert f"its host key cannot be checked: {known}: is a directory" in text
