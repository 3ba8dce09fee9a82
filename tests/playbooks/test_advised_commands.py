"""Every `runbook ...` that a playbook tells a person to type is one that begins, and does not exit with 2."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from runbook.cli import cli
from runbook.commands.input_files import find_playbook, library, read_playbook
from runbook.errors import ConfigError
from runbook.language.inputs import parse_input_option, resolve_inputs
from runbook.plugins import discover
from runbook.values.playbook import Playbook

COMMAND = re.compile(r"`(runbook [^`]+)`")
PLACEHOLDER = re.compile(r"\b(PATH|DIR|FILE|LOG|PARENT|CONFIG)\b")
"""What a person replaces by a path."""


@pytest.fixture(scope="module")
def books() -> dict[str, Playbook]:
    actions = discover()
    return {it.stem: read_playbook(find_playbook(it.stem), actions) for it in sorted(library().glob("*.yaml"))}


def advised(playbook: Playbook) -> list[str]:
    texts = [text for rule in playbook.findings for text in (rule.say, *rule.advise)]
    texts += [str(it.args["text"]) for it in playbook.remediate if it.action == "note"]
    return list(dict.fromkeys(it for text in texts for it in COMMAND.findall(text)))


def words_of(line: str) -> list[str]:
    """The words of *line* once a person, and the program, have filled it in."""
    return shlex.split(PLACEHOLDER.sub("/run/there", re.sub(r"\{\{.*?\}\}", "/run/there", line)))


def why_not(line: str, books: dict[str, Playbook]) -> str:
    """Why *line* would end with a mistake on the command line; empty where it would begin."""
    words = words_of(line)
    command = cli.commands.get(words[1])
    if command is None:
        return f"there is no `runbook {words[1]}`"
    try:
        context = command.make_context(words[1], words[2:], resilient_parsing=False)
    except click.ClickException as error:
        return error.format_message()
    if words[1] != "run":
        return ""
    if context.params["playbook"] not in books:
        return f"there is no playbook {context.params['playbook']}"
    playbook = books[context.params["playbook"]]
    try:
        given = dict(parse_input_option(it, playbook) for it in context.params["inputs"])
        resolve_inputs(playbook, given)
    except ConfigError as error:
        return str(error)
    return ""


def test_every_command_that_is_advised_begins(books):
    wrong = {
        f"{name}: {line}": why for name, it in books.items() for line in advised(it) if (why := why_not(line, books))
    }
    assert wrong == {}
    assert sum(len(advised(it)) for it in books.values()) > 30


@pytest.mark.parametrize(
    "line",
    [
        "runbook run component-logs",
        "runbook run no-such-thing",
        "runbook run zombie-gpu -e nothing=1",
        "runbook run zombie-gpu --no-such-option",
        "runbook walk",
    ],
)
def test_a_command_with_a_mistake_is_seen_to_have_one(line, books):
    assert why_not(line, books)
