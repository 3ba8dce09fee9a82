"""The page about the house says what the house is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[1] / "engine"


def rooms_on_the_page() -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", (ENGINE / "HOUSE.md").read_text(), flags=re.MULTILINE)


def rooms_in_the_code() -> set[str]:
    folders = {it.name for it in ENGINE.iterdir() if it.is_dir() and not it.name.startswith("_")}
    files = {it.stem for it in ENGINE.glob("*.py") if not it.stem.startswith("_")}
    return folders | files


def test_every_room_is_on_the_page_once():
    assert len(rooms_on_the_page()) == len(set(rooms_on_the_page()))
    assert set(rooms_on_the_page()) == rooms_in_the_code()


def test_rooms_stand_on_the_page_from_top_to_bottom_as_the_layers_do():
    layers = re.search(r"layers = \[(.*?)\]", (ENGINE.parent / "pyproject.toml").read_text(), flags=re.DOTALL)
    assert layers
    order = re.findall(r"\w+", layers.group(1))
    storey = {
        room: number
        for number, line in enumerate(re.findall(r'"(.*?)"', layers.group(1)))
        for room in re.findall(r"\w+", line)
    }
    assert set(order) == set(rooms_on_the_page())
    storeys = [storey[it] for it in rooms_on_the_page()]
    assert storeys == sorted(storeys)


@pytest.mark.parametrize("path", sorted(ENGINE.rglob("*.py")), ids=lambda it: str(it.relative_to(ENGINE)))
def test_every_file_says_in_one_sentence_what_it_is_for(path: Path):
    first = path.read_text().lstrip().removeprefix("#!/usr/bin/env python3\n").splitlines()[0:2]
    text = " ".join(first).strip()
    assert text.startswith('"""'), path
    assert len(path.read_text().splitlines()) <= 400, "one giant file is where good codebases fail"


def test_no_function_of_the_engine_takes_a_flag_for_a_dry_run():
    for path in ENGINE.rglob("*.py"):
        assert "dry_run" not in path.read_text(), path
