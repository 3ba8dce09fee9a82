"""The README is short, and what it shows is so; `test_docs.py` holds its links, commands and options, too."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from runbook.cli import cli
from runbook.language.loader import load_playbook
from runbook.plugins import discover

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_readme_is_read_in_a_few_minutes():
    assert len(README.splitlines()) <= 130, "details go into docs/"


def test_the_playbook_of_the_readme_is_good():
    (text,) = [block for block in blocks("yaml") if "diagnose:" in block]
    assert load_playbook(text, "playbooks/stuck-training.yaml", discover()).remediate[0].action == "end"


def test_the_inventory_of_the_readme_is_good(tmp_path):
    (text,) = [block for block in blocks("yaml") if "ssh_host" in block]
    (tmp_path / "hosts.yaml").write_text(text)
    said = CliRunner().invoke(cli, ["hosts", "-i", str(tmp_path / "hosts.yaml")])
    assert "gpu-01" in said.output


def test_the_readme_links_to_every_page_that_people_wrote():
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"commands.md", "playbooks.md"}
    assert [name for name in sorted(pages) if f"docs/{name}" not in README] == []
