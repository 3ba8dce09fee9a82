"""Summarise a playbook: what it is for, what it finds, what it changes, and what it can be given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from runbook.app.playbook_text.layout import WIDTH, wrapped
from runbook.app.playbook_text.steps import limits
from runbook.protocols import Action
from runbook.values.playbook import FindingRule, Playbook, Step, SymptomKind

T = TypeVar("T", Step, FindingRule)

SHOWN_SYMPTOMS = 3
BRANCH = re.compile(r"\{%-?\s*(?:elif|else)\b.*?%\}.*?(?=\{%-?\s*endif)", re.DOTALL)
"""What a template says where its first condition does not hold."""
FILLED = re.compile(r"\{\{.*?\}\}", re.DOTALL)
STATEMENT = re.compile(r"\{%.*?%\}", re.DOTALL)


def summary_lines(book: Playbook, path: str, actions: Mapping[str, Action], wide: int = WIDTH) -> list[str]:
    """The lines of a summary of *book*, in the file *path*; ``...`` stands for what a template fills in."""
    head = wrapped(f"{book.name}: {book.about}" if book.about else book.name, "", wide)
    texts = [symptom.written for symptom in book.symptom if symptom.kind is SymptomKind.TEXT][:SHOWN_SYMPTOMS]
    sections = [
        ("When you read", texts),
        ("It probes, which changes nothing", _steps(book, book.diagnose, actions)),
        ("It finds", _findings(book)),
        ("It changes, in this order", _steps(book, book.remediate, actions)),
        ("Afterwards it probes again, and checks", _steps(book, book.verify, actions)),
        ("Inputs (-e NAME=VALUE)", [f"{given.name}: {_first_sentence(given.about)}" for given in book.inputs]),
        ("Secrets", [f"{secret.name}: from {secret}" for secret in book.secrets]),
    ]
    lines = [*head, f"({path}; for hosts: {book.hosts or 'as given by --hosts'})"]
    for title, entries in sections:
        if entries:
            lines += ["", title, *(line for entry in entries for line in wrapped(entry, "  ", wide))]
    held = wrapped(words, "", wide) if (words := limits(book.limits)) else []
    more = f"Every argument, condition and advice, and how to do it by hand: runbook show -v {book.name}"
    return [*lines, *(["", *held] if held else []), "", more]


def _steps(book: Playbook, steps: Iterable[Step], actions: Mapping[str, Action]) -> list[str]:
    """The steps by their names; those of each included playbook in one line."""
    lines: list[str] = []
    for part, group in _by_part(book, steps):
        if part:
            lines.append(f"what the included {part} does: {', '.join(step.action for step in group)}")
            continue
        for step in group:
            name = step.name or actions[step.action].summary.rstrip(".")
            why = f" (if found: {', '.join(step.for_)})" if step.for_ else ""
            lines.append(f"{step.id or step.action}: {_in_words(name)}{why}")
    return lines


def _findings(book: Playbook) -> list[str]:
    lines = []
    for part, group in _by_part(book, book.findings):
        if part:
            names = [rule.id.removeprefix(f"{part}_") for rule in group if rule.severity.drives]
            lines.append(f"what the included {part} finds: {', '.join(names)}")
            continue
        said = ((rule, _in_words(rule.say)) for rule in group)
        lines += [f"{rule.severity} {rule.id}" + (f": {words}" if words != "..." else "") for rule, words in said]
    return lines


def _by_part(book: Playbook, things: Iterable[T]) -> Iterator[tuple[str, list[T]]]:
    """*things* of the playbook itself, then those of each part."""
    groups: dict[str, list[T]] = {"": [], **{part.id: [] for part in book.parts}}
    for thing in things:
        groups[thing.part].append(thing)
    return ((part, group) for part, group in groups.items() if group)


def _in_words(text: str) -> str:
    """*text* without templates: the first of several branches, and ``...`` for what is filled in."""
    return re.sub(r"(?:\.\.\.[\s:;,]*)+\.\.\.", "...", FILLED.sub("...", STATEMENT.sub("", BRANCH.sub("", text))))


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.;:]) ", " ".join(text.split()), maxsplit=1)[0].rstrip(";:")
