"""What the console shows of a real run, as little or as much as was asked for, and what is advised."""

from __future__ import annotations

import json

import pytest

from tests.support.program import runbook

BOOK = """name: mark
diagnose:
  - {id: seen, command: {argv: [cat, "{{ host.place }}"], accepts: [0, 1]}}
findings:
  - id: unmarked
    when: seen.exit_code == 1
    severity: error
    say: there is no mark
    evidence: {said: seen.stderr}
    advise:
      - "{% if host.name == 'other' %}Never.{% endif %}"
      - "{{ '' if host.name else 'Never either.' }}"
      - Write it by hand.
      - Ask somebody.
      - Ask somebody else.
remediate:
  - {id: write, for: unmarked, file: {path: "{{ host.place }}", content: "x\\n"}}
"""


@pytest.fixture
def here(tmp_path):
    (tmp_path / "mark.yaml").write_text(BOOK)
    (tmp_path / "hosts.yaml").write_text(f"hosts: {{here: {{transport: local, place: {tmp_path}/mark}}}}\n")

    def run(*argv: str):
        return runbook("run", "mark.yaml", "-i", "hosts.yaml", "--hosts", "here", *argv, cwd=tmp_path)

    return run


def test_a_diagnosis_advises_the_dry_run_first_and_leaves_out_what_does_not_fit(here):
    lines = here("--only", "diagnose").out.splitlines()
    assert lines[2:5] == [
        "here: unresolved: unmarked: there is no mark",
        "  next: See what would be done about it: `runbook run mark.yaml --hosts here --dry-run`.",
        "  else: Write it by hand. (2 more: -v)",
    ]
    found = json.loads(here("--only", "diagnose", "--output", "json").out)["hosts"][0]["findings"][0]
    assert found["advise"][1:] == ["Write it by hand.", "Ask somebody.", "Ask somebody else."]


def test_verbose_has_the_evidence_and_each_step_and_quiet_only_what_is_wrong(here):
    short, whole, quiet = (here("--only", "diagnose", *words) for words in ((), ("-v",), ("-v", "-q")))
    assert {it.code for it in (short, whole, quiet)} == {1}
    assert "No such file" not in short.out
    assert "said: cat:" in whole.out
    assert "4. Ask somebody else." in whole.out
    assert quiet.out.splitlines()[0] == "here: unresolved: unmarked: there is no mark"
    done = here("--yes", "-v").out
    assert done.count("changed write: ") == 2, "as it ended, and in the recap"
    assert here("--yes", "-q").out == "", "all is well"


def test_a_recorded_run_is_replayed_as_verbosely_as_asked(here, tmp_path):
    here("--yes", "--records", "records")
    replayed = {
        word: runbook("history", "replay", "last", "--records", "records", *words, cwd=tmp_path).out
        for word, words in {"short": (), "whole": ("--verbose",), "quiet": ("--quiet",)}.items()
    }
    assert replayed["short"].count("changed write: ") == 1
    assert replayed["whole"].count("changed write: ") == 2
    assert replayed["quiet"] == ""


BLIND = """name: blind
diagnose:
  - {id: gpus, command: {argv: [no-such-program]}}
  - {id: more, when: gpus.exit_code == 0, command: {argv: [echo, x]}}
  - {id: speed, scratch: true, disk_speed: {path: /}}
findings:
  - {id: lost, when: gpus.exit_code == 1, severity: error, say: a GPU is lost}
  - {id: idle, when: true, unless: lost, severity: error, say: it is idle}
  - {id: late, when: more.stdout == 'x', severity: error, say: it is late}
  - {id: cold, when: true, severity: warning, say: it is cold}
  - {id: slow, when: speed.slow, severity: error, say: the disk is slow}
remediate:
  - {id: stop, for: idle, command: {check: {argv: ['false']}, do: {argv: ['true']}}}
  - {id: restart, for: idle, after: stop, command: {check: {argv: ['false']}, do: {argv: ['true']}}}
  - {id: mend, for: cold, when: gpus.exit_code, command: {check: {argv: ['false']}, do: {argv: ['true']}}}
  - {id: warm, for: cold, after: mend, command: {check: {argv: ['false']}, do: {argv: ['true']}}}
  - {id: wipe, for: slow, when: speed.slow, command: {check: {argv: ['false']}, do: {argv: ['true']}}}
"""


def test_what_rests_on_a_probe_without_an_answer_is_named_with_the_probe(here, tmp_path):
    """Mutants: ``rests_on`` lost by ``evaluated``, ``gate_of``, ``_hold_back``, ``held_back`` or ``_resting_on``."""
    (tmp_path / "mark.yaml").write_text(BLIND.replace("blind", "mark"))
    lines = here("--dry-run").out.splitlines()
    assert lines[2].startswith("here: unknown: failed gpus: the command exited with 127")
    assert lines[3:8] == [
        "  warning cold: it is cold",
        "  next: measure it, too: the same with --scratch",
        "  not known, as gpus did not answer: lost, idle, late",
        "  not measured in a dry run without --scratch: slow",
        "  not done, as that is not known: stop, restart, mend, warm, wipe",
    ]
    known = "".join(line for line in BLIND.splitlines(keepends=True) if "speed" not in line)
    (tmp_path / "mark.yaml").write_text(known.replace("blind", "mark"))
    assert here("--yes").out.splitlines()[3:6] == [
        "  warning cold: it is cold",
        "  not known, as gpus did not answer: lost, idle, late",
        "  not done, as that is not known: stop, restart, mend, warm",
    ]
