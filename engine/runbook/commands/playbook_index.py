"""The index of playbooks with their symptoms; it is cached, so that a search does not read every playbook again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runbook.commands.file_cache import FileCache
from runbook.commands.input_files import FilesRead, find_playbook, library, playbook_files
from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.protocols import Action
from runbook.text_files import read_text
from runbook.values.playbook import Playbook, Symptom, SymptomKind
from runbook.values.types import Json

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


class _Index:
    def __init__(self) -> None:
        self._cache = FileCache(FILE)

    def cards(self) -> tuple[PlaybookCard, ...]:
        cards = tuple(self._known(path) or self._made(path) for path in playbook_files())
        self._cache.write()
        return cards

    def _known(self, path: Path) -> PlaybookCard | None:
        try:
            find_playbook(path.stem)  # refuses what another user could have put there by now
            return _card(self._cache.recall(path))
        except (ConfigError, KeyError, TypeError, ValueError):
            return None

    def _made(self, path: Path) -> PlaybookCard:
        from runbook.language.loader import load_playbook
        from runbook.plugins import discover

        files = FilesRead()
        try:
            own = find_playbook(path.stem)
            text = read_text(own)
            files.note(path, text)
            playbook = load_playbook(
                text,
                str(own),
                discover(),
                files.include,
                read=files.beside,
                checked=own.resolve().parent != library().resolve(),
            )
        except ConfigError as error:  # read again each time: the reason may lie elsewhere, as the mode of a directory
            return PlaybookCard(name=path.stem, path=str(path), mistakes=len(error.problems))
        card = card_of(path.stem, playbook, discover())
        self._cache.keep(path, files, _tree(card))
        return card


def card_of(name: str, playbook: Playbook, actions: Mapping[str, Action]) -> PlaybookCard:
    """Return the summary (card) of *playbook* for the index; *name*: the name that the user types for the playbook."""
    from runbook.language.sections.symptoms import with_signs

    return PlaybookCard(
        name=name,
        about=playbook.about,
        path=playbook.path,
        symptoms=with_signs(playbook, actions),
        needed=tuple(each.name for each in playbook.inputs if each.required and not each.env),
    )


def _tree(card: PlaybookCard) -> dict[str, Json]:
    return {
        "name": card.name,
        "about": card.about,
        "path": card.path,
        "symptoms": [[symptom.kind.value, symptom.written] for symptom in card.symptoms],
        "needed": list(card.needed),
    }


def _card(tree: Any) -> PlaybookCard:
    """Parse *tree* into a card.  Raises KeyError, TypeError and ValueError if it has another form."""
    return PlaybookCard(
        name=_text(tree["name"]),
        about=_text(tree["about"]),
        path=_text(tree["path"]),
        symptoms=tuple(Symptom(written=_text(text), kind=SymptomKind(kind)) for kind, text in tree["symptoms"]),
        needed=tuple(map(_text, tree["needed"])),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is expected")
    return value
