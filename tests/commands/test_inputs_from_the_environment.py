"""An input may be taken from the environment of `runbook`; its value is a secret, whatever it is called."""

from __future__ import annotations

import pytest

from runbook.commands.input_files import GivenInputs, read_inputs, read_playbook
from runbook.errors import ConfigError
from runbook.plugins import discover

BOOK = """
name: lent
about: It asks with a header.
hosts: all
inputs:
  word:
    about: Sent as a header.
    type: string
    {need}
    env: LENT_WORD
diagnose:
  - id: asked
    http: {{url: http://localhost:1/, headers: {{X-Word: "{{{{ inputs.word }}}}"}}}}
"""


@pytest.fixture
def lent(tmp_path):
    def read(need: str = "default: ''"):
        path = tmp_path / "lent.yaml"
        path.write_text(BOOK.format(need=need))
        return read_playbook(path, discover())

    return read


def test_it_is_taken_from_there_unless_it_is_given(lent, monkeypatch):
    monkeypatch.setenv("LENT_WORD", "from-outside")
    assert read_inputs(GivenInputs(), lent()) == {"word": "from-outside"}
    assert read_inputs(GivenInputs(inputs=("word=given",)), lent()) == {"word": "given"}
    monkeypatch.setenv("LENT_WORD", "")
    assert read_inputs(GivenInputs(), lent()) == {"word": ""}


def test_its_value_is_a_secret_whatever_it_is_called(lent):
    assert lent().inputs[0].hides("from-outside")


def test_where_it_is_required_and_nowhere_the_variable_is_named(lent, monkeypatch):
    monkeypatch.delenv("LENT_WORD", raising=False)
    with pytest.raises(ConfigError, match=r"-e word=\.\.\., or \$LENT_WORD"):
        read_inputs(GivenInputs(), lent("required: true"))


def test_a_variable_that_cannot_be_one_is_a_mistake(tmp_path):
    path = tmp_path / "lent.yaml"
    path.write_text(BOOK.format(need="default: ''").replace("LENT_WORD", "not a name"))
    with pytest.raises(ConfigError, match="not a name"):
        read_playbook(path, discover())
