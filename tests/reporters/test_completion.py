"""The shells complete our words from files alone, quickly, and never connect."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runbook.cli import completing as completion
from tests.reporters.terminal import Terminal
from tests.support.program import runbook
from tests.support.tables import every_row

HOSTS = (
    "hosts:\n"
    + "".join(f"  gpu-{it:02}: {{ssh_host: 192.0.2.{it}, gpu: 8x H100}}\n" for it in range(1, 13))
    + ("groups:\n  night: [gpu-01]\n")
)
BOOK = """name: toy
inputs:
  speed: {about: How fast., type: string, enum: [slow, fast], default: slow}
  sure: {about: Whether., type: boolean, default: false}
  many: {about: How many., type: integer, default: 3}
remediate:
  - {id: a, tags: [gentle], command: {do: {argv: [true]}}}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks" / "toy.yaml").write_text(BOOK)
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNBOOK_INVENTORY", str(tmp_path / "hosts.yaml"))
    return tmp_path


def proposed(*words: str) -> list[str]:
    """What is proposed for the last of *words*."""
    said = runbook(
        _RUNBOOK_COMPLETE="bash_complete", COMP_WORDS=" ".join(("runbook", *words)), COMP_CWORD=str(len(words))
    )
    assert (said.code, said.err) == (0, "")
    return [line.removeprefix("plain,") for line in said.out.splitlines() if line]


@every_row(
    ("words", "there"),
    [
        (["ru"], ["run"]),
        (["run", "to"], ["toy"]),
        (["show", "zom"], ["zombie-gpu"]),
        (["run", "toy", "--hosts", "gpu-1"], ["gpu-10", "gpu-11", "gpu-12"]),
        (["run", "toy", "--hosts", "all,!gpu-1"], ["all,!gpu-10", "all,!gpu-11", "all,!gpu-12"]),
        (["exec", "gpu-[01-03],gpu-1"], [f"gpu-[01-03],gpu-{it}" for it in (10, 11, 12)]),
        (["exec", "ni"], ["night"]),
        (["hosts", "al"], ["all"]),
        (["run", "toy", "-e", "sp"], ["speed=slow", "speed=fast"]),
        (["run", "--yes", "toy", "-e", "s"], ["speed=slow", "speed=fast", "sure=true", "sure=false"]),
        (["run", "toy", "-e", "m"], ["many=3"]),
        (["run", "toy", "--tags", ""], ["gentle"]),
        (["run", "toy", "--output", "js"], ["json", "jsonl"]),
        (["run", "toy", "--only", ""], ["diagnose"]),
        (["actions", "pk"], ["pkill"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["run", "./pl"], ["file,./pl"]),
        (["run", "toy", "--report", "x"], ["file,x"]),
        (["run", "toy", "--hosts", "nosuch"], []),
    ],
)
def test_words_are_completed(folder, words, there):
    assert proposed(*words) == there


def test_a_broken_file_is_no_concern_of_the_completion(folder):
    (folder / "hosts.yaml").write_text("hosts: [\n")
    assert proposed("run", "toy", "--hosts", "g") == []
    (folder / "playbooks" / "toy.yaml").write_text("inputs: 3\n")
    assert proposed("run", "toy", "-e", "s") == []


def test_completion_loads_nothing_that_connects(folder):
    for complete, begun in ((completion.hosts, "gpu-"), (completion.inputs, "s"), (completion.playbooks, "")):
        code = (
            "import sys; from runbook import cli; from runbook.cli import completing as it\n"
            f"assert it.proposals(it.{complete.__name__}, {{'playbook': 'toy'}}, {begun!r})\n"
            "print([it for it in ('paramiko', 'fabric', 'rich', 'jinja2', 'jsonschema', 'ClusterShell') if it in sys.modules])"
        )
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
        assert done.stdout == "[]\n", complete.__name__


@pytest.mark.soak
def test_completion_is_quick_with_a_thousand_hosts(folder):
    (folder / "hosts.yaml").write_text("hosts:\n" + "".join(f"  gpu-{it}: {{ssh_host: h{it}}}\n" for it in range(1000)))
    began = time.process_time()
    assert len(list(completion.hosts({}, "gpu-99"))) > 1000
    assert time.process_time() - began < 3


@pytest.fixture
def program(folder) -> Path:
    """A folder with ``runbook`` in it, to be put on PATH."""
    (folder / "bin").mkdir()
    path = folder / "bin" / "runbook"
    path.write_text(f'#!/bin/sh\nPYTHONPATH={Path(__file__).parents[2]} exec {sys.executable} -m runbook "$@"\n')
    path.chmod(0o755)
    return path.parent


SHELLS = {
    "bash": ("bash", "--norc", "-i"),
    "fish": ("fish", "--no-config", "-i"),
}
LOADS = {"bash": 'eval "$(runbook completion bash)"', "fish": "runbook completion fish | source"}


@pytest.mark.parametrize(
    "shell",
    [
        pytest.param("bash", marks=pytest.mark.real("tmux")),
        pytest.param("fish", marks=pytest.mark.real("tmux", "fish")),
    ],
)
def test_a_real_shell_completes(folder, program, shell):
    environment = {
        "PATH": f"{program}:{os.environ['PATH']}",
        "HOME": str(folder),
        "RUNBOOK_INVENTORY": str(folder / "hosts.yaml"),
    }
    with Terminal(100, 30, SHELLS[shell], **environment) as terminal:
        terminal.until(lambda it: not it.rows[-1].isdigit())  # the prompt stands below what was there before
        terminal.type(f"{LOADS[shell]}; echo ready", "Enter")
        terminal.until_seen("ready")
        for typed, whole in (
            ("run zomb", "run zombie-gpu"),
            ("run toy --hosts nig", "--hosts night"),
            ("exec all,nig", "exec all,night"),
            ("actions dev", "actions device_holders"),
        ):
            terminal.type("C-u", "C-l", f"runbook {typed}", "Tab")
            terminal.until_seen(whole)
