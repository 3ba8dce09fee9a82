"""`secrets:` of a playbook: which forms it has, where a secret may be used, and what is a mistake."""

from __future__ import annotations

import pytest
import yaml
from jsonschema import Draft202012Validator

from runbook.commands.show import playbook_lines
from runbook.errors import ConfigError
from runbook.language.loader import load_playbook
from runbook.language.schema_export import exported_schema
from runbook.language.secret_uses import only_in_change, secret_uses
from runbook.plugins import discover

BOOK = """
name: toy
secrets:
  token: {entry}
diagnose:
  - {{id: asked, {look}}}
"""
PLAIN = "command: {argv: [/bin/x]}"


def load(entry: str = "{env: TOKEN}", look: str = PLAIN):
    return load_playbook(BOOK.format(entry=entry, look=look), "toy.yaml", discover())


def mistakes(entry: str = "{env: TOKEN}", look: str = PLAIN) -> str:
    with pytest.raises(ConfigError) as caught:
        load(entry, look)
    return str(caught.value)


ENTRIES = {
    "{env: TOKEN}": ("env", ("TOKEN",)),
    "{file: ~/token, description: A token.}": ("file", ("~/token",)),
    "{command: [pass, show, 'a b']}": ("command", ("pass", "show", "a b")),
    "{keyring: {service: s, user: u}}": ("keyring", ("s", "u")),
    "{description: The inventory has it.}": ("inventory", ()),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_reference_says_where_the_value_is(entry):
    (found,) = load(entry).secrets
    assert (found.source.value, found.words) == ENTRIES[entry]
    assert (found.where.line, found.name) == (4, "token")


WRONG = {
    "abc-4711-xyz": "expected where its value is, never the value itself",
    "{value: abc-4711-xyz}": "'value' is not allowed in a reference",
    "{evn: TOKEN}": "did you mean env",
    "{env: TOKEN, file: x}": "give one of env, file, command, keyring, not several",
    "{env: abc-4711-xyz}": "`env` is not the name of an environment variable",
    "{env: [TOKEN]}": "`env` needs a text",
    "{file: ''}": "`file` is empty",
    "{command: pass show abc-4711-xyz}": "`command` needs a list of texts",
    "{command: []}": "`command` needs a list of texts",
    "{command: [pass, 1]}": "`command` needs a list of texts",
    "{command: ['', x]}": "the name of the program is empty",
    "{command: [pass, '{{ inputs.x }}']}": "nothing is filled in here",
    "{keyring: {service: s}}": "`keyring` needs a service and a user",
    "{keyring: {service: s, user: u, more: x}}": "`keyring` needs a service and a user",
    "{description: [x], env: TOKEN}": "the description must be text",
}


@pytest.mark.parametrize("entry", WRONG)
def test_a_mistake_has_its_place_and_repeats_no_value(entry):
    """Mutants: secret_reference.py ``_unknown``, ``_words`` or ``_reference`` that repeat what is written."""
    said = mistakes(entry)
    assert WRONG[entry] in said
    assert said.startswith("toy.yaml:4:")
    assert "4711" not in said


def test_a_section_that_is_no_mapping_and_a_name_that_is_none_are_mistakes():
    for text, words in (
        ("[token]", "expected a mapping"),
        ("{a-b: {env: X}}", "letters, digits"),
        ("{_x: {env: X}}", "begins with a letter"),
    ):
        with pytest.raises(ConfigError, match=words):
            load_playbook(f"name: toy\nsecrets: {text}\ndiagnose: [{{id: a, {PLAIN}}}]\n", "toy.yaml", discover())


ALLOWED = [
    "env: {T: '{{ secrets.token }}'}, command: {argv: [/bin/x]}",
    "env: {T: \"Bearer {{ secrets['token'] }} {{ host.name }}\"}, command: {script: 'echo'}",
    "http: {url: 'http://x/', headers: {Authorization: 'Bearer {{ secrets.token }}'}}",
]  # fmt: skip


@pytest.mark.parametrize("look", ALLOWED)
def test_a_secret_may_stand_where_its_value_travels_unseen(look):
    book = load(look=look)
    assert [it.name for it in secret_uses(book)] == ["token"]


FORBIDDEN = [
    "command: {argv: [curl, '{{ secrets.token }}']}",
    "command: {script: 'echo {{ secrets.token }}'}",
    "command: {script: 'echo', params: ['{{ secrets.token }}']}",
    "cwd: '/{{ secrets.token }}', command: {argv: [/bin/x]}",
    "when: secrets.token, command: {argv: [/bin/x]}",
    "each: '[secrets.token]', command: {argv: [/bin/x]}",
    "'on': '{{ secrets.token }}', command: {argv: [/bin/x]}",
    "http: {url: 'http://x/{{ secrets.token }}'}",
    "http: {url: 'http://x/', expect: {a: '{{ secrets.token }}'}}",
    "note: {text: '{{ secrets.token }}'}",
]


@pytest.mark.parametrize("look", FORBIDDEN)
def test_anywhere_else_a_secret_is_a_mistake_that_says_what_to_do(look):
    """Mutants: checks.py with ``secrets_at`` of the whole step; name_resolution.py ``_name`` without its ``secrets``."""
    said = mistakes(look=look)
    assert "cannot be used here: it would be visible" in said or "only inputs" in said, said
    assert said.startswith("toy.yaml:6:")


def test_findings_and_texts_for_people_cannot_name_a_secret():
    text = (
        BOOK.format(entry="{env: T}", look=PLAIN)
        + "findings:\n  - {id: f, when: asked.exit_code, severity: error, say: '{{ secrets.token }}', advise: ['{{ secrets.token }}'], evidence: {a: secrets.token}}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_playbook(text, "toy.yaml", discover())
    assert str(caught.value).count("'token' cannot be used here") == 3


BENT = ["{{ secrets.token[:3] }}", "{{ secrets.token | upper }}", "{{ secrets.token ~ 'x' }}", "{% if secrets.token %}x{% endif %}", "{{ secrets }}", "{{ secrets[inputs.x] }}", "{% set x = secrets.token %}{{ x }}"]  # fmt: skip


@pytest.mark.parametrize("text", BENT)
def test_a_secret_is_only_inserted_as_it_is(text):
    """Mutants: parsed_template.py ``bends_secrets`` that is always false."""
    said = mistakes(look=f'env: {{T: "{text}"}}, command: {{argv: [/bin/x]}}')
    assert "only be inserted as it is" in said


def test_beside_a_secret_only_what_is_known_before_any_probe_may_stand():
    text = (
        BOOK.format(entry="{env: T}", look=PLAIN)
        + "  - {id: two, http: {url: 'http://x/', headers: {A: '{{ asked.stdout }} {{ secrets.token }}'}}}\n"
    )
    with pytest.raises(ConfigError, match="'asked' cannot stand beside a secret"):
        load_playbook(text, "toy.yaml", discover())


CHANGES = {
    "env: {T: '{{ secrets.token }}'}, command: {do: {argv: [/bin/x]}}": True,
    "env: {T: '{{ secrets.token }}'}, command: {check: {argv: [/bin/y]}, do: {argv: [/bin/x]}}": False,
    "http: {url: 'http://x/', method: POST, headers: {A: '{{ secrets.token }}'}, check: {url: 'http://x/'}}": True,
    "http: {url: 'http://x/', method: POST, body: {a: ['{{ secrets.token }}']}, check: {url: 'http://x/'}}": True,
    "http: {url: 'http://x/', method: POST, check: {url: 'http://x/', headers: {A: '{{ secrets.token }}'}}}": False,
    "env: {T: '{{ secrets.token }}'}, package: {names: [jq]}": False,
}


@pytest.mark.parametrize("step", CHANGES)
def test_what_only_a_change_sends_no_dry_run_needs(step):
    text = f"name: toy\nsecrets: {{token: {{env: T}}}}\nremediate:\n  - {{{step}}}\n"
    (use,) = secret_uses(load_playbook(text, "toy.yaml", discover()))
    assert only_in_change(use, discover()[use.step.action]) is CHANGES[step]


def test_show_has_the_reference():
    book = load(
        "{command: [pass, show, x], description: Of the leader.}",
        "env: {API_TOKEN: '{{ secrets.token }}'}, command: {argv: [/bin/x]}",
    )
    said = "\n".join(playbook_lines(book, "toy.yaml", discover()))
    assert "token: Of the leader: from what `pass show x` prints on this machine" in said
    assert "API_TOKEN={{ secrets.token }} in the environment" in said


def test_a_probe_cannot_be_called_secrets():
    with pytest.raises(ConfigError, match="'secrets' is a reserved name"):
        load_playbook(f"name: toy\ndiagnose: [{{id: secrets, {PLAIN}}}]\n", "toy.yaml", discover())


def test_the_schema_for_editors_takes_what_the_loader_takes_and_refuses_the_commonest_mistakes():
    """Mutants: schema_export.py ``_secrets`` without its ``oneOf``, or without ``additionalProperties``."""
    validator = Draft202012Validator(exported_schema(discover()))

    def fits(entry: str) -> bool:
        return validator.is_valid({"name": "toy", "secrets": {"token": yaml.safe_load(entry)}})

    assert [it for it in ENTRIES if not fits(it)] == []
    refused = [it for it in WRONG if not fits(it)]
    assert {
        "abc-4711-xyz",
        "{value: abc-4711-xyz}",
        "{env: TOKEN, file: x}",
        "{command: []}",
        "{keyring: {service: s}}",
    } <= {*refused}
