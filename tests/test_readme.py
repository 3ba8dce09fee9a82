"""What the README shows is so."""

from __future__ import annotations

import re
from pathlib import Path

from click import Group
from click.testing import CliRunner

from engine.actions import discover
from engine.cli import cli
from engine.lang.loader import load_playbook

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_playbook_of_the_readme_is_good():
    (text,) = [it for it in blocks("yaml") if "diagnose:" in it]
    assert load_playbook(text, "playbooks/stuck-training.yaml", discover()).remediate[0].action == "pkill"


def test_the_samples_of_the_readme_are_good():
    (looks,) = [it for it in blocks("yaml") if "samples:" in it]
    asked = [it.replace(r"\|", "|") for it in re.findall(r"^\| `(\w+ \\\| \w+\(.*?\))` \|", README, flags=re.MULTILINE)]
    assert len(asked) == 3
    findings = "".join(f'  - {{id: f{number}, when: "{it}", severity: info}}\n' for number, it in enumerate(asked))
    book = load_playbook(f"name: toy\ndiagnose:\n{looks}findings:\n{findings}", "toy.yaml", discover())
    assert [it.looks for it in book.findings] == [("gpus",), ("memory",), ("memory",)]


def test_the_inventory_of_the_readme_is_good(tmp_path):
    (text,) = [it for it in blocks("yaml") if "ssh_host" in it]
    (tmp_path / "hosts.yaml").write_text(text)
    said = CliRunner().invoke(cli, ["hosts", "-i", str(tmp_path / "hosts.yaml")])
    assert "gpu-01" in said.output


def test_every_command_and_option_that_the_readme_names_exists():
    for line in re.findall(r"^(?:\$ )?(runbook .*?)(?:\s+#.*)?$", README, flags=re.MULTILINE) + re.findall(
        r"`(runbook [^`]*)`", README
    ):
        words = line.split()
        assert words[1] in cli.commands, line
        command = cli.commands[words[1]]
        if isinstance(command, Group):
            assert words[2] in command.commands, line
            command = command.commands[words[2]]
        known = {option for it in command.params for option in it.opts}
        assert {it for it in words if it.startswith("--")} <= known, line


def test_the_makefile_has_the_commands_of_the_readme():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"make ([\w-]+)", README)) <= targets


def test_the_exit_codes_of_the_readme_are_those_of_the_errors():
    from engine import errors

    said = {int(it) for it in re.findall(r"^\| (\d+) \|", README, flags=re.MULTILINE)}
    assert said == {0, 1, 2, 3, 4, 5, 6, 130}
    assert {
        it.exit_code for it in vars(errors).values() if isinstance(it, type) and issubclass(it, errors.RunbookError)
    } <= said
