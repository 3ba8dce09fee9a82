"""playbooks/README.md says where each row is done; what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

FOLDER = Path(__file__).parents[1] / "playbooks"
PAGE = (FOLDER / "README.md").read_text()
NUMBERS = {"S0": 23, "S1": 18, "S2": 19, "S3": 19, "S4": 25}
"""How many rows each document has."""

SECTIONS = dict(re.findall(r"^## (S\d)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def rows(section: str) -> list[tuple[str, str]]:
    """Each row of the table of *section*: its number, and where it is done."""
    lines = [it for it in SECTIONS[section].splitlines() if it.startswith(f"| {section}-")]
    cells = [[it.strip() for it in line.strip("|").split("|")] for line in lines]
    assert [len(it) for it in cells] == [3] * len(cells), "a row is: number | what | where"
    return [(it[0], it[2]) for it in cells]


def places() -> list[tuple[str, str, str]]:
    """Row, playbook, and the id of a step or finding in it."""
    found = []
    for section in SECTIONS:
        for row, where in rows(section):
            for part in where.split(";"):
                book, colon, ids = part.partition(":")
                assert colon, f"{row}: a playbook with a colon stands before its steps: {part.strip()}"
                assert re.findall(r"`([^`]+)`", ids), f"{row}: no step is named: {part.strip()}"
                found += [(row, book.strip(), it) for it in re.findall(r"`([^`]+)`", ids)]
    return found


def ids_of(book: str) -> set[str]:
    """Every id in *book*: its steps and findings, its includes, and what these bring, with the prefix."""
    tree = yaml.safe_load((FOLDER / f"{book}.yaml").read_text())
    own: set[str] = set()
    for section in ("diagnose", "findings", "remediate", "verify"):
        for it in tree.get(section) or ():
            own |= {it["id"]} if "id" in it else set()
            if "include" in it:
                own |= {f"{it['id']}_{inner}" for inner in ids_of(it["include"])}
    return own


def test_there_is_a_table():
    assert SECTIONS
    assert set(SECTIONS) <= set(NUMBERS)
    assert places()


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_every_row_of_a_section_is_there_once_and_in_order(section):
    assert [it for it, _ in rows(section)] == [f"{section}-{it:02}" for it in range(1, NUMBERS[section] + 1)]


@pytest.mark.parametrize(("row", "book", "step"), places(), ids="-".join)
def test_what_a_row_names_is_in_the_playbook(row, book, step):
    assert (FOLDER / f"{book}.yaml").exists(), f"{row} names a playbook that is not there: {book}"
    assert step in ids_of(book), f"{row}: {book} has no {step}; it has: {', '.join(sorted(ids_of(book)))}"


def test_every_playbook_that_the_page_leads_to_is_there():
    named = re.findall(r"\[[\w-]+\]\(([\w-]+)\.yaml\)", PAGE)
    assert named
    assert [it for it in named if not (FOLDER / f"{it}.yaml").exists()] == []
