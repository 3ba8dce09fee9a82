"""What is secret in a file is shown by nothing that comes out of it."""

from __future__ import annotations

import json

import pytest

from runbook.inventory import read
from runbook.secrets.documents import secrets_in
from runbook.secrets.masking import Masking
from runbook.secrets.names import is_secret
from runbook.values.playbook import Where
from tests.support.parse_text import host, inventory, mistakes

KEPT = """
    sync:
      s3: {bucket: things, secret_access_key: top-level-key-9}
    hosts:
      a:
        ssh_key: ~/.ssh/id_a
        ssh_password: hunter22-a
        cloudflare_tunnel: ssh.example.com
        cloudflare_service_token_id: token-id-0815
        cloudflare_service_token_secret: token-secret-0815
        wandb: {api_key: nested-key-123, entity: team}
        passphrases: {}
        app_secrets: [first-secret, {deep: second-secret}]
        worker_url: http://worker:url-password@10.0.0.1:8765/
        pin_token: 98765432
        inline: |
          -----BEGIN OPENSSH PRIVATE KEY-----
          b3BlbnNzaC1rZXktdjEAAAAABG5vbmU
          -----END OPENSSH PRIVATE KEY-----
"""
VALUES = [
    "top-level-key-9", "hunter22-a", "token-id-0815", "token-secret-0815", "nested-key-123", "first-secret",
    "second-secret", "url-password", "98765432", "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU",
]  # fmt: skip


def test_every_secret_of_the_file_is_known_so_that_it_can_be_masked_everywhere():
    assert set(VALUES) <= set(inventory(KEPT).secrets)


def test_no_secret_field_is_in_what_a_host_shows_of_itself():
    found = inventory(KEPT)
    shown = json.dumps(dict(found.hosts[0].vars)) + repr(found) + repr(found.hosts[0])
    for value in VALUES:
        if value != "url-password":  # a URL stays whole, or it could not be used; output masks the password in it
            assert value not in shown
    assert found.hosts[0].vars["wandb"] == {"api_key": "***", "entity": "team"}
    assert found.hosts[0].vars["app_secrets"] == ["***", {"deep": "***"}]
    assert found.hosts[0].vars["pin_token"] == "***"


def test_a_path_to_a_key_is_no_secret():
    found = inventory(KEPT)
    assert found.hosts[0].vars["ssh_key"] == "~/.ssh/id_a"
    assert "~/.ssh/id_a" not in found.secrets


def test_a_mistake_does_not_say_the_secret_that_it_is_about():
    text = "hosts: {a: {cloudflare_tunnel: x.example, cloudflare_service_token_id: 0.125}}"
    (said,) = mistakes(text)
    assert "0.125" not in said


def test_words_that_are_no_secret_values_do_not_blank_the_output():
    found = inventory("hosts: {a: {api_token: none, use_token: true, password: '', token: null, secret: 'true'}}")
    assert found.secrets == ()


def test_a_private_key_is_a_secret_wherever_it_stands():
    found = host("notes: [plain, '-----BEGIN PRIVATE KEY----- MIIEvQIBADANBg']")
    assert found.vars["notes"] == ["plain", "***"]


def test_secrets_are_looked_for_once_in_what_stands_in_many_places():
    section: dict[str, object] = {"api_token": "found-in-the-loop"}
    section["again"] = [section] * 10
    found = read([({"hosts": {"a": {}}, "other": section}, "a.yaml", lambda path: Where())])
    assert found.secrets == ("found-in-the-loop",)


LINES = {
    "hunter2\nAdmin1": {"hunter2", "Admin1"},
    "-----hunter2\n-----BEGIN-----": {"-----hunter2", "-----BEGIN-----"},
    "-----BEGIN HUNTER2-----\nab": {"-----BEGIN HUNTER2-----"},
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\nAA\n-----END OPENSSH PRIVATE KEY-----": {"b3Bl"},
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n=Ab12\n-----END PGP PRIVATE KEY BLOCK-----": {"=Ab12"},
    "[{{\n  hunt\n]}},\n------\nroot\nenabled\nhealthy": {"hunt"},
}


@pytest.mark.parametrize("value", LINES)
def test_each_line_of_a_secret_is_hidden_but_what_stands_in_many_texts(value):
    """Mutants: documents.py ``can_be_hidden`` with 8 for SHORTEST; without ARMOUR, ``_FRAME`` or the words; with
    every line that begins with dashes for ARMOUR.
    """
    whole, *lines = secrets_in({"secret": value + "\n"})
    assert (whole, set(lines)) == (value, LINES[value])
    mask = Masking((whole, *lines))
    for line in LINES[value]:
        assert line not in mask(f"before\n{line}\nafter")


@pytest.mark.parametrize(
    "key",
    ["token", "api_token", "hf_token", "HF_TOKEN", "authToken", "password", "become_password", "ssh_pass", "passphrase",
     "secret", "client-secret", "cloudflare_service_token_id", "cloudflare_service_token_secret", "api_key", "apikey",
     "wandb_api_key", "private_key", "aws_secret_access_key", "credentials", "db_pwd"],
)  # fmt: skip
def test_these_fields_are_secret(key):
    assert is_secret(key, "something")
    assert host(f"{key}: something-long").vars == {key: "***"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssh_key", "~/.ssh/id_cluster"),
        ("public_key", "ssh-ed25519 AAAA"),
        ("private_key", "~/.ssh/id_rsa"),
        ("private_key_path", "/etc/keys/a"),
        ("token_url", "https://example.com/token"),
        ("max_tokens", 4096),
        ("password_file", "/run/pw"),
        ("bypass", "yes please"),
        ("keyboard", "qwerty"),
        ("region", "eu"),
        ("ssh_host", "10.0.0.1"),
        ("tokenizer", "gpt"),
    ],
)
def test_these_fields_are_not(key, value):
    assert not is_secret(key, value)
