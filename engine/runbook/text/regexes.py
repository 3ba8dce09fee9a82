"""Regular expressions of authors, searched in text of hosts within a bounded time.

Authors of playbooks are trusted, text of a host is not: anybody may write a line that a search of an innocent pattern
takes hours on. The language is that of Python's ``re``, the search is done by the ``regex`` module, which ends when its
time is up. What was not searched to the end is unknown (``SearchTimeout``), never "not found".

The two modules differ in which marks and number signs outside of ASCII are ``\\w``; in the separators ``\\x1c`` to
``\\x1f``, which are no ``\\s`` here; in which letters differ only by case (the Turkish dotless i is no i here); in
``\\B`` in an empty text; and in possessive repeats of repeats, or of what can be empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from re import _constants, _parser  # type: ignore[attr-defined] # not public, and the only parser of this language
from threading import Lock
from time import thread_time
from typing import TYPE_CHECKING, Any, Protocol
from warnings import catch_warnings

from runbook.dataclass import dataclass
from runbook.errors import ProbeError

if TYPE_CHECKING:
    import regex  # imported where it is used: that takes 15 ms

MAX_PATTERN_CHARACTERS = 2000
"""The maximum number of characters of a pattern."""

MAX_EXPANDED_SIZE = 100_000
"""The maximum number of characters and groups of a pattern after its counted repeats are written out, as ``regex``
does.
"""

LONGEST_TEXT = 1 << 20
"""The maximum number of characters of a text.  A search can need 160 bytes for each, and ends late in a longer text."""

SECONDS_OF_TEXT = 1.0
"""The maximum processor time in seconds for the search of one pattern in one text."""

SECONDS_OF_LIST = 60.0
"""The maximum processor time in seconds of all searches in one list of texts; 16 MiB of logs and 8 signatures need 10
s.
"""

SHOWN = 100
"""The maximum number of characters of a pattern in a message."""

QUICK = 0.02
"""The seconds for which a search may block the other threads; after that it starts again without blocking them."""

_SLOW_ONES = Lock()
"""Held by a slow search: ``regex`` counts the processor time of all threads, so that slow searches go one at a time."""

_TOKEN = re.compile(
    r"""(?P<comment>\(\?\#[^)]*\)) | (?P<escape>\\N\{[^}]*\}|\\.)
    | (?P<set>\[\^?\]?(?:\\.|[^]\\])*\])
    | (?P<brace>\{(?!(?:[0-9]+(?:,[0-9]*)?|,[0-9]*)\}))""",
    re.VERBOSE | re.DOTALL,
)
_VERBOSE_TOKEN = re.compile(rf"{_TOKEN.pattern} | (?P<line>\#[^\n]*)", _TOKEN.flags)
_SIZE = re.compile(
    rf"(?P<count>\{{(?P<least>[0-9]*)(?:,(?P<most>[0-9]*))?\}})|(?P<open>\()|(?P<close>\))|{_TOKEN.pattern}|(?P<one>.)",
    _TOKEN.flags,
)
_IN_SET = re.compile(r"\\.|\[", re.DOTALL)
_CASE_PART = re.compile(r"\(\?[a-z]*-?[a-z]*i[a-z]*:")
_VERBOSE = re.compile(r"\(\?[a-z]*x[a-z]*\)")
_VERBOSE_PART = re.compile(r"\(\?[a-z]*-?[a-z]*x[a-z]*:")


class SearchTimeout(ProbeError):
    """A search was stopped by its time limit; the message continues a sentence about the pattern."""


def fault_in_regex(pattern: str, flags: int = 0) -> str:
    """Return the reason why *pattern* cannot be searched for; empty if it can."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        return f"a regular expression may have {MAX_PATTERN_CHARACTERS} characters, this one has {len(pattern)}"
    if "#" in pattern and _VERBOSE_PART.search(pattern):
        return "comments in a part of a regular expression are not supported: begin all of it with (?x)"
    try:
        re.compile(pattern, flags)  # its messages are those that authors of Python's patterns know
        if _size(pattern) > MAX_EXPANDED_SIZE:
            return f"its counted repeats are too large: written out it has more than {MAX_EXPANDED_SIZE} characters"
        compile_regex(pattern, flags)
    except Exception as error:
        if isinstance(error, (re.error, RecursionError, OverflowError)) or type(error).__module__.startswith("regex"):
            return f"not a regular expression: {error}"
        raise
    return ""


def _size(pattern: str) -> int:
    """Return about how many characters and groups *pattern* has if ``a{3}`` is written as ``aaa``."""
    around: list[int] = []
    whole = last = 0
    for token in _SIZE.finditer(pattern):
        match token.lastgroup:
            case "open":
                around.append(whole)
                whole = 0
            case "close" if around:
                last = whole + 1
                whole = around.pop() + last
            case "count":
                times = max(int(token["least"] or 0), int(token["most"] or 0), 1)
                whole += last * (times - 1)
            case "comment":
                pass
            case _:
                last = 1
                whole += 1
    return whole


class SearchMatch(Protocol):
    """A match with the methods of ``re.Match``."""

    def group(self) -> str:
        """Return the whole match."""

    def start(self) -> int:
        """Return the position where the match begins."""

    def groups(self) -> tuple[str | None, ...]:
        """Return the match of each group."""

    def groupdict(self) -> dict[str, str | None]:
        """Return the match of each named group."""


@dataclass(frozen=True, slots=True)
class SearchPattern:
    """A compiled regular expression."""

    written: str
    """The pattern as its author wrote it."""
    compiled: regex.Pattern[str]

    def __str__(self) -> str:
        return self.written if len(self.written) <= SHOWN else f"{self.written[:SHOWN]}..."


@lru_cache(512)
def compile_regex(pattern: str, flags: int = 0) -> SearchPattern:
    """Return the compiled *pattern*, which must be valid; *flags* are ``re.IGNORECASE`` and ``re.MULTILINE``."""
    import regex

    verbose = _VERBOSE.match(pattern) is not None
    start = r"\X{0}" if _CASE_PART.search(pattern) else ""  # nothing; without it [^b] beside (?i:a) does not match B
    return SearchPattern(pattern, regex.compile(start + _as_re_reads_it(pattern, verbose), flags | regex.VERSION0))


def _as_re_reads_it(pattern: str, verbose: bool) -> str:
    """Return *pattern* without syntax that only ``regex`` has: ``{e}`` and ``[[:alpha:]]`` are plain characters to
    ``re``.
    """

    def plain(token: re.Match[str]) -> str:
        match token.lastgroup:
            case "set":
                return "[" + _IN_SET.sub(lambda part: "\\[" if part[0] == "[" else part[0], token[0][1:])
            case "brace":
                return "\\{"
            case "comment" | "line":
                return ""
        return token[0]

    return (_VERBOSE_TOKEN if verbose else _TOKEN).sub(plain, pattern)


class SearchBudget:
    """A time budget for all searches in one list of texts (the processes of a host, the lines of a log)."""

    def __init__(self, seconds: float = SECONDS_OF_LIST) -> None:
        self._left = seconds

    def search(self, pattern: SearchPattern, text: str) -> SearchMatch | None:
        """Return the first match of *pattern* in *text*; None if there is none.  Raises SearchTimeout if the time is
        not enough.
        """
        if len(text) > LONGEST_TEXT:
            raise SearchTimeout(f"could not be searched for {pattern}: it has {len(text)} characters")
        if self._left <= 0:
            raise SearchTimeout(f"was not searched for {pattern}: the time for all searches was used up before")
        began = thread_time()
        try:
            return _search(pattern.compiled, text, min(SECONDS_OF_TEXT, self._left))
        except (TimeoutError, MemoryError) as error:
            raise SearchTimeout(
                f"could not be searched for {pattern} within {SECONDS_OF_TEXT:g} s ({len(text)} characters)"
            ) from error
        finally:
            self._left -= thread_time() - began

    def found(self, pattern: SearchPattern, text: str) -> bool:
        """Whether *pattern* is in *text*.  Raises SearchTimeout if the time is not enough."""
        return self.search(pattern, text) is not None

    def any_found(self, patterns: Iterable[SearchPattern], text: str) -> bool:
        """Whether one of *patterns* is in *text*.  Raises SearchTimeout if none is found and a search was cut off."""
        slow: SearchTimeout | None = None
        for pattern in patterns:
            try:
                if self.found(pattern, text):
                    return True
            except SearchTimeout as error:
                slow = slow or error
        if slow:
            raise slow
        return False


def _search(pattern: regex.Pattern[str], text: str, seconds: float) -> SearchMatch | None:
    """Return the first match.  Raises TimeoutError.  A quick search blocks other threads; a slow search must not."""
    try:
        return pattern.search(text, timeout=QUICK, concurrent=False)
    except TimeoutError:
        with _SLOW_ONES:
            return pattern.search(text, timeout=seconds, concurrent=True)


SHORTEST_WORD = 3
"""The minimum number of characters of a word that is worth a search of its own."""


def needed_words(pattern: str) -> tuple[str, ...]:
    """Return lower-case words of which every match of *pattern* contains one; empty: there are none.

    A text without any of these words need not be searched, which saves most of the time.
    """
    try:
        with catch_warnings(action="ignore", category=FutureWarning):  # of `[[`, which was said when it was written
            words = _needed(_parser.parse(pattern, re.IGNORECASE))
    except (re.error, RecursionError, OverflowError):  # what only the other engine understands
        return ()
    return tuple(sorted(words)) if words and all(len(word) >= SHORTEST_WORD for word in words) else ()


def _needed(sequence: Iterable[Any]) -> frozenset[str]:
    """Return the best words for *sequence*: every match contains one of them, and they are as long as possible."""
    found, run = list[frozenset[str]](), ""
    for kind, value in sequence:
        letter = chr(value).lower() if kind is _constants.LITERAL else ""
        if len(letter) == 1 and letter.isascii():
            run += letter
            continue
        found += [frozenset({run})] if run else []
        run = ""
        match kind, value:
            case (_constants.BRANCH, (_, branches)):
                each = [_needed(branch) for branch in branches]
                found += [frozenset().union(*each)] if all(each) else []
            case (_constants.SUBPATTERN, (*_, inner)) | (_constants.ATOMIC_GROUP, inner):
                found.append(_needed(inner))
            case (_constants.MAX_REPEAT | _constants.MIN_REPEAT | _constants.POSSESSIVE_REPEAT, (least, _, inner)) if (
                least
            ):
                found.append(_needed(inner))
    found += [frozenset({run})] if run else []
    return max(found, key=lambda words: min(map(len, words), default=0), default=frozenset())
