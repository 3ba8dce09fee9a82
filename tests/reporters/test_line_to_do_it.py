"""A dry run ends with the line that does what it has shown, where there is something to be done."""

from __future__ import annotations

import pytest

from tests.support.program import runbook

BOOK = """name: mark
inputs:
  text: {about: What to write., type: string, default: x}
remediate:
  - {id: write, file: {path: "{{ host.place }}", content: "{{ inputs.text }}"}}
"""


@pytest.fixture
def here(tmp_path):
    (tmp_path / "mark.yaml").write_text(BOOK)
    (tmp_path / "hosts.yaml").write_text(f"hosts: {{here: {{transport: local, place: {tmp_path}/mark}}}}\n")

    def run(*argv: str):
        return runbook("run", "mark.yaml", "-i", "hosts.yaml", "--hosts", "here", *argv, cwd=tmp_path)

    return run


def test_a_dry_run_ends_with_the_line_to_do_it(here):
    said = here("--dry-run", "-e", "text=two words")
    assert said.err.splitlines()[-1] == (
        "runbook: to do it, after a yes: runbook run mark.yaml -i hosts.yaml --hosts here -e 'text=two words'"
    )
    assert "to do it" not in here("--dry-run", "--output", "json").err
    assert here("--yes").code == 0
    assert "to do it" not in here("--dry-run").err, "nothing is to be done"


def test_that_line_names_the_hosts_that_a_playbook_has_by_itself(tmp_path):
    """Mutant: ``_typed_to_do_it`` without them: a change is refused there."""
    (tmp_path / "mark.yaml").write_text(BOOK.replace("name: mark\n", "name: mark\nhosts: here\n"))
    (tmp_path / "hosts.yaml").write_text(f"hosts: {{here: {{transport: local, place: {tmp_path}/mark}}}}\n")
    said = runbook("run", "mark.yaml", "-i", "hosts.yaml", "--dry-run", cwd=tmp_path)
    assert said.err.splitlines()[-1].endswith(": runbook run mark.yaml -i hosts.yaml --hosts here")


def test_no_secret_stands_in_that_line(here):
    """Mutants: ``_typed_to_do_it`` of the words as they were typed."""
    said = here("--dry-run", "-e", "text=a", "--reason", "api_token=s3cr3t-4711-x")
    assert "to do it" in said.err
    assert "s3cr3t" not in said.err + said.out
