"""The summary of a playbook names what it finds and changes, in words, and fits on a page."""

from __future__ import annotations

import pytest

from runbook.commands.input_files import library, read_playbook
from runbook.commands.show import summary_lines
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from tests.support.tables import every_row

LIBRARY = sorted(library().glob("*.yaml"))
TEXT = """
name: sweep
about: Sweep the floor.
hosts: gpu
symptom: ["the floor is dirty", {pattern: 'dust: \\d+'}]
inputs:
  broom: {about: "Which broom. The long one by default.", default: long}
diagnose:
  - {id: floor, name: The floor, command: {argv: [uptime]}}
findings:
  - {id: dirty, when: floor.exit_code, severity: error, say: "{{ floor.exit_code }} spots{% if inputs.broom %} for {{ inputs.broom }}{% else %}, no broom{% endif %}"}
  - {id: bare, when: floor.exit_code, severity: warning, say: "{{ floor.stdout }}"}
remediate:
  - {id: sweep, name: "Sweep with {{ inputs.broom }}", for: dirty, pkill: {patterns: [spider]}}
limits: {deadline: 5m}
"""


def test_what_it_is_for_finds_and_changes_stands_in_words():
    book = load_playbook(TEXT, "sweep.yaml", discover(), None)
    assert summary_lines(book, "sweep.yaml", discover()) == [
        "sweep: Sweep the floor.",
        "(sweep.yaml; for hosts: gpu)",
        "",
        "When you read",
        "  the floor is dirty",
        "",
        "It probes, which changes nothing",
        "  floor: The floor",
        "",
        "It finds",
        "  error dirty: ... spots for ...",
        "  warning bare",
        "",
        "It changes, in this order",
        "  sweep: Sweep with ... (if found: dirty)",
        "",
        "Inputs (-e NAME=VALUE)",
        "  broom: Which broom.",
        "",
        "The whole run ends after 5 min.",
        "",
        "Every argument, condition and advice, and how to do it by hand: runbook show -v sweep",
    ]


@every_row("path", LIBRARY)
def test_no_playbook_of_the_library_is_summarised_by_its_templates(path):
    lines = summary_lines(read_playbook(path, discover()), str(path), discover())
    assert not [line for line in lines if "{{" in line or "{%" in line or "}}" in line]
    assert max(map(len, lines)) <= 400


@pytest.mark.parametrize("name", ["zombie-gpu"])
def test_the_first_playbook_that_anybody_opens_fits_on_a_page(name):
    (path,) = (path for path in LIBRARY if path.stem == name)
    assert len(summary_lines(read_playbook(path, discover()), str(path), discover())) <= 60
