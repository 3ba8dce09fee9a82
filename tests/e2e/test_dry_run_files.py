"""Dry runs leave every file of a host as it was: probes whose programs try to write."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.program import runbook
from tests.support.unprivileged import ordinary_user

BOOK = """name: writes
diagnose:
  - {id: python, command: {argv: [python3, -c, "open('PLACE/python', 'w')"], accepts: [0, 1]}}
  - {id: awk, command: {argv: [awk, 'BEGIN { print 1 > "PLACE/awk" }'], accepts: [0, 1, 2]}}
  - {id: perl, command: {argv: [perl, -e, "open(F, '>', 'PLACE/perl') or die $!"], accepts: [0, 2, 30]}}
  - {id: inner, command: {argv: [sh, -c, "awk 'BEGIN { print 1 > \\"PLACE/inner\\" }'"], accepts: [0, 1, 2]}}
  - {id: reads, command: {argv: [cat, /proc/uptime]}}
remediate:
  - id: change
    command:
      check: {argv: [python3, -c, "open('PLACE/check', 'w')"]}
      do: {argv: [touch, "PLACE/do"]}
"""
"""Of which each program fails, or says so, where nothing can be written."""


def written(tmp_path: Path) -> tuple[Path, tuple[str, ...]]:
    place = tmp_path / "place"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    (tmp_path / "writes.yaml").write_text(BOOK.replace("PLACE", str(place)))
    (tmp_path / "hosts.yaml").write_text("hosts: {here: {transport: local}}\n")
    return place, ("writes.yaml", "-i", "hosts.yaml", "--hosts", "here")


@pytest.mark.real("root", "lab")
def test_programs_of_the_authors_leave_no_file(tmp_path):
    """Mutants: a probe that is not confined; a run that confines only while it plans; an exit code that is believed."""
    place, where = written(tmp_path)
    said = runbook("run", *where, "--dry-run", "--output", "json", cwd=tmp_path)
    assert list(place.iterdir()) == []
    steps = {step["id"]: step for step in said.document["hosts"][0]["steps"]}
    for name in ("python", "awk", "inner"):
        assert (steps[name]["status"], "wanted to write" in steps[name]["why"]) == ("failed", True), steps[name]
    assert steps["reads"]["status"] == "ok"
    assert steps["change"]["status"] != "would_change", "an exit code of 1 because of us does not call for the change"
    assert "believed" not in runbook("run", *where, "--dry-run", cwd=tmp_path).out
    runbook("run", *where, "--yes", cwd=tmp_path)
    assert list(place.iterdir()) == []
    text = f"open('{place}/x', 'w')"
    said = runbook("exec", "here", "--read", "-i", "hosts.yaml", "--", "python3", "-c", text, cwd=tmp_path)
    assert list(place.iterdir()) == [], said.out + said.err


def test_check_names_programs_that_it_cannot_judge_in_one_line(tmp_path):
    """Mutants: believed_note that says nothing; that names `reads`."""
    written(tmp_path)
    said = runbook("check", "writes.yaml", cwd=tmp_path)
    assert said.code == 0, said.err
    (line,) = [line for line in said.out.splitlines() if "believed, not enforced" in line]
    assert "python (python3), awk (awk), perl (perl), inner (awk), change (python3)" in line


@pytest.mark.real("root", "setpriv", "lab")
def test_without_root_nothing_is_claimed(tmp_path):
    """Mutants: host_lines.py without ``believed_lines``; a line for each command."""
    place, where = written(tmp_path)
    with ordinary_user() as user:
        shutil.copy(tmp_path / "writes.yaml", user.home)
        shutil.copy(tmp_path / "hosts.yaml", user.home)
        argv = user.words("run", *(f"./{word}" if word.endswith("yaml") else word for word in where), "--dry-run")
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    (line,) = [line for line in done.stdout.splitlines() if "believed, not enforced" in line]
    assert "python, awk, perl, inner, change (only root can be kept from writing)" in line, done.stdout + done.stderr
    assert (place / "python").exists() or "denied" in done.stdout
