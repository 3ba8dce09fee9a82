"""``runbook find``: name the playbooks that are for an error, the best first."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from runbook.actions import discover
from runbook.app.find.error_text import LARGEST, ErrorText, read_error_text
from runbook.app.find.matching import FoundPlaybook, SymptomMatch, SymptomSearch
from runbook.app.input_files import known_playbooks
from runbook.text.printable import on_one_line
from runbook.values.playbook import Playbook
from runbook.values.types import Json, plural

MOST = 5
"""Playbooks that are named."""

SHOWN = 120
"""Characters of a match that are shown."""

NOTHING = (
    "No playbook knows this error. Give the whole message, or more of the log around it; "
    "`runbook list` shows what each playbook is for."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said, and the exit code."""

    text: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class _Result:
    """What a search came to."""

    error: ErrorText
    found: tuple[FoundPlaybook, ...]
    left_out: tuple[tuple[str, str], ...]
    """Playbooks that were not searched, or not to the end, each with the reason."""


def playbooks_for(words: Sequence[str], file: str, output: str, stdin: Callable[[], IO[bytes]]) -> Answer:
    """The playbooks for the error text that *words*, *file* or *stdin* has.  Raises ConfigError where there is none."""
    result = _search(read_error_text(words, file, stdin))
    text = _as_json(result) if output == "json" else "\n".join(_lines(result))
    return Answer(text, 0 if result.found else 1)


def _search(error: ErrorText) -> _Result:
    known = known_playbooks(discover())
    playbooks, search = [*known.usable.values()], SymptomSearch(error.text)
    found = search.found_in(playbooks)[:MOST]
    slow = [
        (playbook.name, f"its symptom {on_one_line(symptom.written, SHOWN)!r} took too long to search for")
        for playbook in playbooks
        for symptom in playbook.symptom
        if symptom in search.slow
    ]
    return _Result(error, tuple(found), (*known.faulty.items(), *slow))


def _lines(result: _Result) -> Iterator[str]:
    for number, found in enumerate(result.found):
        yield from ([""] if number else [])
        best, *others = found.matches
        more = f" (and {plural(len(others), 'more symptom')})" if others else ""
        yield f"{found.playbook.name}  {_place(best)}{on_one_line(best.text.strip(), SHOWN)}{more}"
        yield from ([f"    {found.playbook.about}"] if found.playbook.about else [])
        yield f"    {line_to_type(found.playbook)}"
    if not result.found:
        yield NOTHING
    if result.error.cut:
        yield f"note: only the last {LARGEST // 1024 // 1024} MiB of the text were searched"
    for name, why in result.left_out:
        yield f"note: {name} was left out: {why}"


def _place(match: SymptomMatch) -> str:
    return f"line {match.line}: " if match.lines > 1 else ""


def line_to_type(playbook: Playbook) -> str:
    """The command that shows what *playbook* would do; an input that it needs has its name in place of the value."""
    inputs = "".join(
        f" -e {needed.name}={needed.name.upper()}" for needed in playbook.inputs if needed.required and not needed.env
    )
    return f"runbook run {shlex.quote(playbook.name)} --hosts HOSTS{inputs} --dry-run"


def _as_json(result: _Result) -> str:
    document: dict[str, Json] = {
        "playbooks": [_found_as_json(found) for found in result.found],
        "cut": result.error.cut,
        "left_out": [{"playbook": name, "why": why} for name, why in result.left_out],
    }
    return json.dumps(document, indent=2)


def _found_as_json(found: FoundPlaybook) -> Json:
    return {
        "playbook": found.playbook.name,
        "about": found.playbook.about,
        "path": found.playbook.path,
        "run": line_to_type(found.playbook),
        "matches": [
            {
                "symptom": match.symptom.written,
                "kind": match.symptom.kind.value,
                "text": match.text,
                "line": match.line,
            }
            for match in found.matches
        ],
    }
