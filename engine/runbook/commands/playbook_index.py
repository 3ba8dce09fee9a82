"""The index of playbooks with their symptoms; it is cached, so that a search does not read every playbook again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from runbook.commands.input_files import find_playbook, library, open_included, playbook_files, read_beside
from runbook.commands.program_cache import ProgramCache
from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.text_files import read_text
from runbook.values.playbook import Playbook, Symptom, SymptomKind

FILE = "playbooks.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookCard:
    """The summary of a playbook for the index."""

    name: str
    about: str = ""
    path: str = ""
    symptoms: tuple[Symptom, ...] = ()
    needed: tuple[str, ...] = ()
    """The inputs that the user must give."""
    mistakes: int = 0
    """The number of mistakes; if it is above 0, the playbook cannot be used, and the other fields are empty."""


def playbook_cards() -> tuple[PlaybookCard, ...]:
    """Return the summary (card) of every playbook that can be named without a path, sorted by name.

    A card is kept while runbook, the playbook and its included files are unchanged.  If no cache can be written, every
    playbook is read.
    """
    return _Index().cards()


@dataclass(frozen=True, slots=True)
class _Entry:
    """A card, the files that it depends on, and a digest of each file."""

    card: PlaybookCard
    files: Mapping[str, str]


class _Index:
    def __init__(self) -> None:
        self._cache = ProgramCache(FILE)
        self._digest = cache(_digest)

    def cards(self) -> tuple[PlaybookCard, ...]:
        paths = playbook_files()
        there = sha256("\0".join(str(path.absolute()) for path in paths).encode()).hexdigest()
        known = self._read(there)
        entries = {}
        for path in paths:
            entry = known.get(str(path.absolute()))
            entries[str(path.absolute())] = entry if entry and self._is_current(path, entry) else self._made(path)
        if entries != known:
            self._write(there, entries)
        return tuple(entry.card for entry in entries.values())

    def _is_current(self, path: Path, entry: _Entry) -> bool:
        try:
            find_playbook(path.stem)  # refuses what another user could have put there by now
        except ConfigError:
            return False
        return all(self._digest(file) == digest for file, digest in entry.files.items())

    def _made(self, path: Path) -> _Entry:
        from runbook.language.loader import load_playbook
        from runbook.plugins import discover

        files = {str(path.absolute())}

        def include(name: str, file: str) -> tuple[str, str]:
            found, text = open_included(name, file)
            files.add(str(Path(found).absolute()))
            return found, text

        def beside(name: str, playbook: str, included: bool = False) -> str:
            text = read_beside(name, playbook, included)
            files.add(str((Path(playbook).resolve().parent / name).absolute()))
            return text

        try:
            own = find_playbook(path.stem)
            playbook = load_playbook(
                read_text(own),
                str(own),
                discover(),
                include,
                read=beside,
                checked=own.resolve().parent != library().resolve(),
            )
            card = card_of(path.stem, playbook)
        except ConfigError as error:
            return _Entry(PlaybookCard(name=path.stem, path=str(path), mistakes=len(error.problems)), {})
        return _Entry(card, {file: self._digest(file) for file in sorted(files)})

    def _read(self, there: str) -> dict[str, _Entry]:
        try:
            tree = self._cache.read()
            return {path: _entry(entry) for path, entry in tree["playbooks"].items()} if tree["there"] == there else {}
        except (ValueError, KeyError, TypeError, AttributeError):  # none is there, or it is damaged: made again
            return {}

    def _write(self, there: str, entries: Mapping[str, _Entry]) -> None:
        # a faulty playbook is read again each time: the reason may lie elsewhere, as the mode of a directory
        kept = {path: _tree(entry) for path, entry in entries.items() if entry.files}
        self._cache.write({"there": there, "playbooks": kept})


def card_of(name: str, playbook: Playbook) -> PlaybookCard:
    """Return the summary (card) of *playbook* for the index; *name*: the name that the user types for the playbook."""
    return PlaybookCard(
        name=name,
        about=playbook.about,
        path=playbook.path,
        symptoms=playbook.symptom,
        needed=tuple(each.name for each in playbook.inputs if each.required and not each.env),
    )


def _tree(entry: _Entry) -> dict[str, Any]:
    card = entry.card
    return {
        "name": card.name,
        "about": card.about,
        "path": card.path,
        "symptoms": [[symptom.kind.value, symptom.written] for symptom in card.symptoms],
        "needed": list(card.needed),
        "files": dict(entry.files),
    }


def _entry(tree: Mapping[str, Any]) -> _Entry:
    """Parse *tree* into an entry.  Raises KeyError, TypeError and ValueError if it has another form."""
    card = PlaybookCard(
        name=_text(tree["name"]),
        about=_text(tree["about"]),
        path=_text(tree["path"]),
        symptoms=tuple(Symptom(written=_text(text), kind=SymptomKind(kind)) for kind, text in tree["symptoms"]),
        needed=tuple(map(_text, tree["needed"])),
    )
    return _Entry(card, {_text(file): _text(digest) for file, digest in tree["files"].items()})


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is expected")
    return value


def _digest(file: str) -> str:
    try:
        return sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""
