"""The command ``runbook find``: name the playbooks for an error text, the most likely first."""

from __future__ import annotations

import json
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import IO

from runbook.commands.playbook_index import PlaybookCard, playbook_cards
from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.secrets.detection import secret_spans
from runbook.secrets.names import MASK
from runbook.text.printable import on_one_line
from runbook.text.regexes import SearchBudget, SearchPattern, SearchTimeout, needed_words
from runbook.text.symptoms import fixed_part, regex_of_pattern, regex_of_text
from runbook.text_files import kind_of_file
from runbook.values.playbook import Symptom, SymptomKind
from runbook.values.types import Json, plural

PIECE = 64 * 1024
"""The characters of a piece, which ends at a line end; a longer line is cut."""

SECONDS = 20.0
"""The processor time, in seconds, of all searches in one text."""

LONGEST_MATCH = 400
"""The characters of a match that are kept."""

MOST_LETTERS = 80
"""The letters of a match that count: a pattern that matches half a line is not better for that."""

AT_THE_BEGINNING = 0.4
"""The weight of a match in the first line of a long log; a match in its last line has the weight 1."""

FURTHER = 0.25
"""The weight of a further match of the same playbook."""

MAX_LINES_OF_A_MESSAGE = 20
"""The lines of a message; a longer text is a log, which names many subjects."""

OF_A_STEP = 0.3
"""The weight of a text by which a step recognises a fault, compared with the author's symptoms for `find`."""


_BY_AUTHOR = (SymptomKind.TEXT, SymptomKind.PATTERN)


@dataclass(frozen=True, slots=True, kw_only=True)
class SymptomMatch:
    """The last match of a symptom in a text."""

    symptom: Symptom
    text: str
    line: int
    """The number of the line, from 1; for several lines, the first."""
    place: float
    """The position in the searched text: 0 is the beginning, 1 the end."""

    @property
    def score(self) -> float:
        """Return the weight of the match."""
        letters = min(MOST_LETTERS, sum(letter.isalpha() for letter in self.text))
        weight = 1.0 if self.symptom.kind in _BY_AUTHOR else OF_A_STEP
        return weight * letters * (AT_THE_BEGINNING + (1 - AT_THE_BEGINNING) * self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPlaybook:
    """A playbook with symptoms that the text contains."""

    playbook: PlaybookCard
    matches: tuple[SymptomMatch, ...]
    """The matches, the best one first."""

    @property
    def score(self) -> float:
        """Return the score of the playbook; a higher score is more likely."""
        best, *others = (match.score for match in self.matches)
        return best + FURTHER * sum(others)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some lines of a text, with their numbers."""

    lines: tuple[tuple[int, str], ...]
    """The lines with their numbers, from 1; a line that contains carriage returns counts as one."""
    text: str = field(repr=False)
    lower: str = field(repr=False)

    def line_at(self, place: int) -> int:
        """Return the number of the line with the character at *place*."""
        return self.lines[self.text.count("\n", 0, place)][0]


class SymptomSearch:
    """A text in which symptoms are searched; the time of all searches together is limited."""

    def __init__(self, text: str, seconds: float = SECONDS, before: int = 0) -> None:
        """Split *text* into pieces; *before*: the number of lines of the same file before *text*."""
        lines = text.removesuffix("\n").split("\n")
        self.lines, self._before = len(lines), before
        self._pieces = tuple(_pieces(lines))[::-1]
        self._budget = SearchBudget(seconds)
        self.slow: dict[Symptom, str] = {}
        """The symptoms whose search was not finished, each with the reason."""
        self.end: SymptomMatch | None = None
        """The normal end of a job, before which no error counts."""
        self.after = 0
        """The line of a traceback after it, which may be noise of the shutdown; 0: none."""

    def found_in(self, playbooks: Sequence[PlaybookCard]) -> list[FoundPlaybook]:
        """Return those of *playbooks* with symptoms that the text contains, the most likely first."""
        ends = {symptom for playbook in playbooks for symptom in playbook.symptoms if symptom.kind is SymptomKind.END}
        found = filter(None, map(self._last_match, ends))
        self.end = max(found, key=lambda match: match.line, default=None)
        if self.end:
            lines = (numbered for piece in reversed(self._pieces) for numbered in piece.lines)
            traced = (self._before + number for number, line in lines if "Traceback (most recent call last)" in line)
            self.after = next((number for number in traced if number > self.end.line), 0)
        return next(filter(None, (self._found_by(kinds, playbooks) for kinds in self._rounds())), [])

    def _rounds(self) -> Iterator[tuple[SymptomKind, ...]]:
        """Yield the kinds of symptoms that are searched together; the later ones only where nothing was found."""
        yield (*_BY_AUTHOR, SymptomKind.SIGN)
        if self.lines <= MAX_LINES_OF_A_MESSAGE:
            yield (SymptomKind.TOPIC,)
        yield (SymptomKind.TRACE,)

    def _found_by(self, kinds: Sequence[SymptomKind], playbooks: Sequence[PlaybookCard]) -> list[FoundPlaybook]:
        every = [
            FoundPlaybook(playbook=playbook, matches=matches)
            for playbook in playbooks
            if not (self.end and self.end.symptom in playbook.symptoms)  # the job ended as this playbook calls normal
            and (matches := self._matches([each for each in playbook.symptoms if each.kind in kinds]))
        ]
        return sorted(every, key=lambda found: (-found.score, found.playbook.name))

    def _matches(self, symptoms: Sequence[Symptom]) -> tuple[SymptomMatch, ...]:
        every = [match for symptom in symptoms if (match := self._last_match(symptom)) and self._counts(match)]
        return tuple(sorted(every, key=lambda match: -match.score))

    def _counts(self, match: SymptomMatch) -> bool:
        """Whether *match* counts: no symptom before the normal end of a job counts, and none of its shutdown."""
        return not self.end or (match.symptom.kind in _BY_AUTHOR and match.line > self.end.line)

    def _last_match(self, symptom: Symptom) -> SymptomMatch | None:
        """Return the last match of *symptom*; None if there is none, or if the search took too long (``slow``)."""
        is_text = symptom.kind is SymptomKind.TEXT
        pattern = regex_of_text(symptom.written) if is_text else regex_of_pattern(symptom.written)
        needed = (fixed_part(symptom.written),) if is_text else self._words_of(symptom)
        try:
            return next(self._in_pieces(symptom, pattern, needed), None)
        except SearchTimeout as error:
            self.slow[symptom] = str(error)
            return None

    def _words_of(self, symptom: Symptom) -> tuple[str, ...]:
        """Return words of which each match of the pattern contains at least one.

        Empty for a short text, which is searched quickly anyway.
        """
        return needed_words(symptom.written) if len(self._pieces) > 1 else ()

    def _in_pieces(self, symptom: Symptom, pattern: SearchPattern, needed: Sequence[str]) -> Iterator[SymptomMatch]:
        """Yield the last match in each piece, the last piece first.

        *needed*: words of which each match contains at least one; empty if no such words are known.
        """
        for piece in self._pieces:
            if needed and not any(word in piece.lower for word in needed):
                continue
            if not (found := self._budget.search(pattern, piece.text)):
                continue
            line, text = self._last_line(piece, pattern) or (piece.line_at(found.start()), found.group())
            place = line / self.lines
            yield SymptomMatch(symptom=symptom, text=text[:LONGEST_MATCH], line=self._before + line, place=place)

    def _last_line(self, piece: _Piece, pattern: SearchPattern) -> tuple[int, str] | None:
        """Return the last line of *piece* with a match, and the match; None if the match spans several lines."""
        for number, line in reversed(piece.lines):
            if found := self._budget.search(pattern, line):
                return number, found.group()
        return None


def _pieces(lines: Iterable[str]) -> Iterator[_Piece]:
    """Yield *lines* in pieces of about the same length."""
    kept: list[tuple[int, str]] = []
    size = 0
    for number, line in enumerate(lines, 1):
        for part in _parts(line):
            if kept and size + len(part) > PIECE:
                yield _piece(kept)
                kept, size = [], 0
            kept.append((number, part))
            size += len(part) + 1
    if kept:
        yield _piece(kept)


def _parts(line: str) -> Iterator[str]:
    """Yield the parts of *line* to search: the states of a progress bar one by one, and a long part in several."""
    for shown in line.removesuffix("\r").split("\r"):
        yield from (shown[start : start + PIECE] for start in range(0, max(1, len(shown)), PIECE))


def _piece(lines: Sequence[tuple[int, str]]) -> _Piece:
    text = "\n".join(line for _, line in lines)
    return _Piece(tuple(lines), text, text.lower())


MAX_SEARCHED_BYTES = 4 * 1024 * 1024
"""The bytes at the end of a text that are searched: in a log, the end matters most."""

ONCE = 1024 * 1024
"""The number of bytes that are read at a time."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_FILE = re.compile(r"@\S+")

WAYS = "runbook find 'ERROR TEXT', runbook find @FILE (or --file FILE), or runbook find - for standard input"


@dataclass(frozen=True, slots=True)
class ErrorText:
    """The text that is searched."""

    text: str
    """The text without colours, and with a mask in place of each secret."""
    before: int | None = None
    """The number of lines before the text, which are not searched; None: the text is complete."""


def read_error_text(words: Sequence[str], file: str, stdin: Callable[[], IO[bytes]]) -> ErrorText:
    """Return the error text that *words* and the option *file* of a command line give.  Raises ConfigError."""
    if bool(words) == bool(file):
        raise ConfigError(f"give an error text, in one way: {WAYS}")
    if file:
        return _text_of_file(file)
    if len(words) == 1 and words[0] == "-":
        return _text_of_stdin(stdin)
    if len(words) == 1 and _FILE.fullmatch(words[0]):
        return _text_of_file(words[0][1:])
    return _prepared(" ".join(words).encode(errors="replace"))


def _text_of_file(name: str) -> ErrorText:
    path = Path(name)
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for, a device never ends
            raise ConfigError(f"cannot read {name}: {kind_of_file(path)}")
        with path.open("rb") as stream:
            return _prepared(*_end_of(stream))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from error


def _text_of_stdin(stdin: Callable[[], IO[bytes]]) -> ErrorText:
    try:
        return _prepared(*_end_of(stdin()))
    except (OSError, RuntimeError, AttributeError) as error:  # closed, or a directory
        why = getattr(error, "strerror", None) or "it is closed"
        raise ConfigError(f"cannot read standard input: {why}") from error


def _end_of(stream: IO[bytes]) -> tuple[bytes, int]:
    """Return the last bytes of *stream*, and the number of lines before them.

    It returns more bytes than are searched if the text is longer, so that the caller sees this.
    """
    pieces, size, lines = deque[bytes](), 0, 0
    while piece := stream.read(ONCE):
        pieces.append(piece)
        size += len(piece)
        while size - len(pieces[0]) > MAX_SEARCHED_BYTES:
            size -= len(pieces[0])
            lines += pieces.popleft().count(b"\n")
    end = b"".join(pieces)
    return end[-MAX_SEARCHED_BYTES - 1 :], lines + end[: -MAX_SEARCHED_BYTES - 1].count(b"\n")


def _prepared(raw: bytes, lines: int = 0) -> ErrorText:
    """Return the text *raw* without colours and secrets, cut to its end; *lines*: the number of lines before it."""
    cut = len(raw) > MAX_SEARCHED_BYTES
    if cut:
        lines += raw[:-MAX_SEARCHED_BYTES].count(b"\n")
    text = _COLOUR.sub("", raw[-MAX_SEARCHED_BYTES:].decode("utf-8", errors="replace"))
    whole = _from_a_whole_line(text) if cut else text
    lines += text[: len(text) - len(whole)].count("\n")
    return ErrorText(_masked(whole), lines if cut else None)


def _masked(text: str) -> str:
    """Return *text* with its secrets masked and its number of lines unchanged."""
    parts, done = list[str](), 0
    for start, end in secret_spans(text):
        parts += [text[done:start], MASK, "\n" * text.count("\n", start, end)]
        done = end
    return "".join([*parts, text[done:]])


def _from_a_whole_line(text: str) -> str:
    """Return *text*, whose beginning was cut off, from the first place that cannot be inside a secret.

    This is the next line, or the end of a private key.
    """
    key_end = _KEY_END.search(text)
    if key_end and "-----BEGIN " not in text[: key_end.start()]:
        return text[key_end.end() :]
    return text[text.find("\n") + 1 :]


MAX_PLAYBOOKS = 5
"""The maximum number of playbooks that are named."""

SHOWN = 120
"""The characters of a match that are shown."""

NOTHING = (
    "No playbook knows this error. Give the whole message, or more of the log around it; "
    "`runbook list` shows what each playbook is for."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the command, and its exit code."""

    text: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of a search."""

    error: ErrorText
    many_lines: bool
    end: SymptomMatch | None
    after: int
    """See ``SymptomSearch.after``."""
    found: tuple[FoundPlaybook, ...]
    left_out: tuple[tuple[str, str], ...]
    """Playbooks that were not searched completely, each with the reason."""


def playbooks_for(words: Sequence[str], file: str, output: str, stdin: Callable[[], IO[bytes]]) -> Answer:
    """Return the answer with the playbooks for the error text in *words*, *file* or *stdin*.

    Raises ConfigError without such a text.
    """
    result = _search(read_error_text(words, file, stdin))
    text = json.dumps(_as_json(result), indent=2) if output == "json" else "\n".join(_lines(result))
    return Answer(text, 0 if result.found else 1)


def playbooks_in_text(text: str) -> dict[str, Json]:
    """Return the playbooks for the error in *text*, in the form of ``--output json``; *text* never names a file."""
    return _as_json(_search(_prepared(text.encode(errors="replace"))))


def _search(error: ErrorText) -> _Result:
    cards, search = playbook_cards(), SymptomSearch(error.text, before=error.before or 0)
    playbooks = [card for card in cards if not card.mistakes]
    faulty = [
        (card.name, f"it cannot be used: {plural(card.mistakes, 'mistake')} (runbook check {card.name})")
        for card in cards
        if card.mistakes
    ]
    found = search.found_in(playbooks)[:MAX_PLAYBOOKS]
    slow = [
        (playbook.name, f"its symptom {on_one_line(symptom.written, SHOWN)!r} took too long to search for")
        for playbook in playbooks
        for symptom in playbook.symptoms
        if symptom in search.slow
    ]
    return _Result(error, search.lines > 1, search.end, search.after, tuple(found), (*faulty, *slow))


def _lines(result: _Result) -> Iterator[str]:
    for number, found in enumerate(result.found):
        yield from ([""] if number else [])
        best, *others = found.matches
        more = f" (and {plural(len(others), 'more symptom')})" if others else ""
        line = f"line {best.line}: " if result.many_lines else ""
        only = " (its subject; the error itself is not known)" if best.symptom.kind is SymptomKind.TOPIC else ""
        yield f"{found.playbook.name}  {line}{on_one_line(best.text.strip(), SHOWN)}{more}{only}"
        yield from ([f"    {found.playbook.about}"] if found.playbook.about else [])
        yield f"    {line_to_type(found.playbook)}"
    if not result.found and result.end:
        end = on_one_line(result.end.text.strip(), SHOWN)
        if result.after:
            yield f"The job ended by itself (line {result.end.line}: {end}); a traceback follows (line {result.after})."
            yield "    Is it noise of the end? runbook run training-crash --hosts HOSTS --dry-run"
        else:
            yield f"No playbook is needed: the job ended by itself (line {result.end.line}: {end})."
    elif not result.found:
        yield NOTHING
    if result.error.before is not None:
        yield f"note: only the last {MAX_SEARCHED_BYTES // 1024 // 1024} MiB of the text were searched"
    for name, why in result.left_out:
        yield f"note: {name} was left out: {why}"


def line_to_type(playbook: PlaybookCard) -> str:
    """Return the command for a dry run of *playbook*; the value of each needed input is its name in capitals."""
    inputs = "".join(f" -e {name}={name.upper()}" for name in playbook.needed)
    return f"runbook run {shlex.quote(playbook.name)} --hosts HOSTS{inputs} --dry-run"


def _as_json(result: _Result) -> dict[str, Json]:
    return {
        "playbooks": [_found_as_json(found) for found in result.found],
        "ended_at_line": result.end.line if result.end else None,
        "cut": result.error.before is not None,
        "left_out": [{"playbook": name, "why": why} for name, why in result.left_out],
    }


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
