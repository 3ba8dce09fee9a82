"""playbooks/README.md says where each row is done; the steps, findings and inputs that it names are there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import yaml

from tests.support.tables import every_row


class Loader(yaml.SafeLoader):
    """Reads playbooks, with values that stay untouched."""


Loader.add_constructor("!raw", lambda loader, node: node.value)

FOLDER = Path(__file__).parents[2] / "playbooks"
PAGE = (FOLDER / "README.md").read_text()
NUMBERS = {"S0": 23, "S1": 18, "S2": 19, "S3": 19, "S4": 25}
"""How many rows each document has."""

SECTIONS: dict[str, str] = dict(re.findall(r"^## [^\n]*\((S\d)\)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
KINDS = {"inputs": "inputs", "input": "inputs"} | dict.fromkeys(
    ("probe", "probes", "step", "steps", "finding", "findings", "verify", "include", "advice of", "probe of"), "ids"
)
WORDS = re.compile(r"`([^`]*)`(:?)|\b(advice of|probe of|\w+)\b|([;()])")


def rows(section: str) -> list[tuple[str, str]]:
    """Each row of the table of *section*: its number, and where it is done."""
    lines = [it for it in SECTIONS[section].splitlines() if it.startswith(f"| {section}-")]
    cells = [[it.strip() for it in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert [len(it) for it in cells] == [3] * len(cells), "a row is: number | what it asks for | where it is"
    return [(it[0], it[2]) for it in cells]


def named(where: str, books: tuple[str, ...]) -> list[tuple[tuple[str, ...], str, str]]:
    """What *where* names: the playbooks that it may be in, its kind (ids, inputs), and its name.

    A name counts behind a word for its kind, as in: finding `a`; steps `b`, `c` and `d`.
    """
    found, kind = [], ""
    for name, colon, word, mark in WORDS.findall(where):
        if colon and (FOLDER / f"{name}.yaml").exists():
            books, kind = (name,), ""
        elif name and kind:
            found.append((books, kind, name))
        elif mark or (word and word != "and"):
            kind = KINDS.get(word, "")
    return found


def books_of(section: str) -> tuple[str, ...]:
    """The playbooks that *section* leads to."""
    return tuple(re.findall(r"\]\(([\w-]+)\.yaml\)", SECTIONS[section]))


@cache
def contents(book: str) -> dict[str, set[str]]:
    """The inputs of *book*, and its ids: steps, findings, includes, and what these bring, with the prefix."""
    tree = yaml.load((FOLDER / f"{book}.yaml").read_text(), Loader)
    ids: set[str] = set()
    for it in (it for section in ("diagnose", "findings", "remediate", "verify") for it in tree.get(section) or ()):
        ids |= {one["id"] for one in it.get("findings", [it]) if "id" in one}
        if "include" in it:
            ids |= {f"{it['id']}_{inner}" for inner in contents(it["include"])["ids"]}
    return {"ids": ids, "inputs": set(tree.get("inputs") or ())}


def every_name() -> list[tuple[str, tuple[str, ...], str, str]]:
    return [
        (row, *it) for section in SECTIONS for row, where in rows(section) for it in named(where, books_of(section))
    ]


def test_a_name_counts_behind_a_word_for_its_kind():
    either = ("a", "b")
    where = "probe `x` (`once`), finding `y` and `z`; verify `v` over `jobs.leftover`; `disk-slow`: input `size`"
    assert named(where, either) == [
        (either, "ids", "x"),
        (either, "ids", "y"),
        (either, "ids", "z"),
        (either, "ids", "v"),
        (("disk-slow",), "inputs", "size"),
    ]


def test_what_an_include_brings_has_its_prefix():
    assert {"disk", "disk_slow", "loop_clone_over"} <= contents("training-crash")["ids"]


@every_row("section", sorted(SECTIONS))
def test_every_row_of_a_section_is_there_once_and_in_order(section):
    assert books_of(section), f"{section} leads to no playbook: [`name`](name.yaml)"
    assert [it for it, _ in rows(section)] == [f"{section}-{it:02}" for it in range(1, NUMBERS[section] + 1)]


@every_row(("row", "books", "kind", "name"), every_name(), ids=str)
def test_what_a_row_names_is_in_a_playbook(row, books, kind, name):
    there = {it for book in books for it in contents(book)[kind]}
    assert name in there, f"{row}: {' and '.join(books)} have no {name}; there are: {', '.join(sorted(there))}"


def test_every_playbook_that_the_page_leads_to_is_there():
    links = re.findall(r"\]\(([\w-]+)\.yaml\)", PAGE)
    assert links
    assert [it for it in links if not (FOLDER / f"{it}.yaml").exists()] == []


def test_the_timer_on_the_page_begins_by_itself():
    """``OnUnitInactiveSec`` counts from the end of a first run, which it never begins."""
    (timer,) = re.findall(r"^\[Timer\]\n(.*?)^\[", PAGE, re.MULTILINE | re.DOTALL)
    keys = [it.partition("=")[0] for it in timer.split()]
    assert "OnUnitInactiveSec" in keys
    assert {"OnActiveSec", "OnBootSec", "OnCalendar"} & {*keys}
