"""ARCHITECTURE.md says what the code is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ENGINE = ROOT / "engine"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
MOST_MODULES = 20
"""Modules that one package may have."""


def section(title: str) -> str:
    return re.split(r"(?m)^#+ ", PAGE.partition(f" {title}\n")[2])[0]


def packages_on_the_page(title: str) -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", section(title), flags=re.MULTILINE)


def packages_in(folder: Path) -> set[str]:
    folders = {path.name for path in folder.iterdir() if path.is_dir() and any(path.glob("*.*"))}
    files = {path.stem for path in folder.glob("*.py")}
    return {name for name in folders | files if not name.startswith("_")}


@pytest.mark.parametrize(("title", "folder"), [("Layers", ENGINE), ("Facts", ENGINE / "facts")])
def test_every_package_is_on_the_page_once(title, folder):
    assert sorted(packages_on_the_page(title)) == sorted(packages_in(folder))


def test_packages_stand_on_the_page_from_top_to_bottom_as_the_layers_do():
    layers = re.search(r"layers = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), flags=re.DOTALL)
    assert layers
    level = {
        package: number
        for number, line in enumerate(re.findall(r'"(.*?)"', layers.group(1)))
        for package in re.findall(r"\w+", line)
    }
    assert set(level) == set(packages_on_the_page("Layers"))
    levels = [level[package] for package in packages_on_the_page("Layers")]
    assert levels == sorted(levels)


def test_every_file_that_the_path_of_a_step_names_is_there():
    named = re.findall(r"`([\w/]+(?:\.py|/))`", section("The path of a step"))
    assert len(named) > 10
    known = {str(path.relative_to(ENGINE)) for path in ENGINE.rglob("*.py")}
    for name in named:
        assert (ENGINE / name).is_dir() or any(f"/{path}".endswith(f"/{name}") for path in known), name


def test_the_glossary_has_at_most_thirty_terms():
    terms = re.findall(r"^\| ([a-z][\w ]*) \|", section("Glossary"), flags=re.MULTILINE)
    assert 10 < len(terms) - 1 <= 30
    assert terms[1:] == sorted(terms[1:])


@pytest.mark.parametrize("folder", sorted({path.parent for path in ENGINE.rglob("*.py")}), ids=str)
def test_no_package_is_a_drawer(folder: Path):
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= MOST_MODULES, f"{folder} has {len(modules)} modules: cut it by subject"


@pytest.mark.parametrize("path", sorted(ENGINE.rglob("*.py")), ids=lambda it: str(it.relative_to(ENGINE)))
def test_every_file_says_in_one_sentence_what_it_is_for(path: Path):
    first = path.read_text().lstrip().removeprefix("#!/usr/bin/env python3\n").splitlines()[0:2]
    text = " ".join(first).strip()
    assert text.startswith('"""'), path
    assert len(path.read_text().splitlines()) <= 400, "one giant file is where good codebases fail"


def test_no_function_of_the_engine_takes_a_flag_for_a_dry_run():
    for path in ENGINE.rglob("*.py"):
        assert "dry_run" not in path.read_text(), path
