"""Combine texts into one if they differ only in pids, counts, times, sizes or addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from itertools import groupby

from runbook.dataclass import dataclass

_SLOTS = re.compile(
    r"""(?P<time>(?<![\w.])(?:\d+\ d(?:\ \d+\ h)?|\d+\ h(?:\ \d+\ min)?|
            \d+\ min(?:\ \d+\ s)?|\d+(?:\.\d+)?\ ?(?:ms|s))(?!\w))
      | (?P<uuid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})
      | (?P<address>(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]))
      | (?P<port>(?:(?<=\.\d:)|(?<=\.\d\d:)|(?<=\.\d\d\d:))\d{1,5}(?![\w.]))
      | (?P<pid>(?<=\bpid\ )\d+)
      | (?P<size>(?<![\w.:=/-])\d+(?:\.\d+)?(?=\ ?(?:[KMGTP]i?B|kB|B|bytes?|%|W|°?C|[KMG]?Hz)(?!\w)))
      | (?P<number>(?<![\w.:=/\#@-])\d+(?:\.\d+)?(?![\w:=/-]|\.\w))""",
    re.VERBOSE,
)
_LABEL = re.compile(
    r"\b(?:bus|code|core|cpu|cuda|device|driver|errno|error|exit|gid|gpus?|http|id|index|job|lane|level|line|link|minor|"
    r"node|number|numa|nvlink|port|rank|rc|release|returns?|returned|signal|slot|status|step|uid|version|xid)\W*$",
    re.IGNORECASE,
)
"""Words after which a number is a name, not a quantity: ``exit code 137`` and ``exit code 1`` are not similar."""
_SMALL = re.compile(
    r"(?:and|as|at|be|before|by|for|from|has|have|in|is|of|off|on|or|than|then|to|was|were|with)$", re.I
)
_WORD = r"[A-Za-z]+(?:\(e?s\))?"
_NEXT = re.compile(rf"(?: {_WORD}){{1,3}}(?![\w/.:=-])")
_COUNTED = re.compile(rf"(?<=\0number\0)(?: {_WORD}){{1,3}}")
_VERBATIM = ("| ", "$ ")
"""The beginnings of texts that are never split: output of a program, a difference between files, a command line."""
SHOWN_PIDS = 12
"""The maximum number of pids that one line names for processes on many hosts."""
MARK = "…"
"""The text in place of different names that do not form a range."""


@dataclass(frozen=True, slots=True)
class SimilarLine:
    """A line split into parts.  Two lines are similar if their keys are equal."""

    key: str
    """The text without the parts that may differ."""
    parts: tuple[str, ...] = field(compare=False)
    """The texts around the slots; there is one text more than slots."""
    slots: tuple[tuple[str, str], ...] = field(compare=False)
    """The kind and the text of each part that may differ."""
    host: str = field(compare=False, default="")


def line_of(text: str, host: str = "", *, strict: bool) -> SimilarLine:
    """Split *text*, reported by *host*, into a line.  *strict*: a bare number is a quantity only next to a noun."""
    parts, slots, at = [], [], 0
    if text.lstrip().startswith(_VERBATIM):
        return SimilarLine(text, (text,), (), host)
    for found in _pattern(host if host in text else "").finditer(text):
        kind = found.lastgroup or ""
        if kind == "number" and not _is_quantity(text, found.start(), found.end(), strict):
            continue
        parts.append(text[at : found.start()])
        slots.append((kind, found.group()))
        at = found.end()
    parts.append(text[at:])
    template = "".join(f"{part}\0{kind}\0" for part, (kind, _) in zip(parts, slots, strict=False)) + parts[-1]
    key = _COUNTED.sub(lambda it: " ".join(map(_stem, it.group().split(" "))), template)
    return SimilarLine(key, tuple(parts), tuple(slots), host)


@lru_cache(maxsize=1024)
def _pattern(host: str) -> re.Pattern[str]:
    if not host:
        return _SLOTS
    return re.compile(rf"(?P<host>(?<![\w.-]){re.escape(host)}(?![\w-]))|{_SLOTS.pattern}", re.VERBOSE)


def _is_quantity(text: str, start: int, end: int, strict: bool) -> bool:
    if _LABEL.search(text, max(0, start - 12), start):
        return False
    if not strict:
        return True
    following = _NEXT.match(text, end)
    words = following.group().split() if following else []
    nouns = words[: next((at for at, word in enumerate(words) if _SMALL.match(word)), len(words))]
    return any(_stem(noun) != noun for noun in nouns) or (text[start:end] == "1" and bool(nouns))


def _stem(word: str) -> str:
    """Return the singular of the noun *word*: ``processes``, ``process(es)`` and ``process`` give the same."""
    word = re.sub(r"\(e?s\)$", "", word)
    if re.search(r"(?:ss|sh|ch|x)es$", word):
        return word[:-2]
    return word[:-1] if re.search(r"[^s]s$", word) and word.lower() not in ("has", "is", "was", "this", "as") else word


def one_text(lines: Sequence[SimilarLine]) -> str:
    """Return similar *lines* as one text: pids by host, and other differences as a range or as a mark."""
    fullest = max(lines, key=lambda line: sum(map(len, line.parts)))  # a plural is longer than its singular
    values = [[(line.host, *line.slots[number]) for line in lines] for number in range(len(fullest.slots))]
    return "".join(part + _range(slot) for part, slot in zip(fullest.parts, values, strict=False)) + fullest.parts[-1]


def _range(values: Sequence[tuple[str, str, str]]) -> str:
    kind, texts = values[0][1], {text for _, _, text in values}
    if len(texts) == 1:
        return texts.pop()
    if kind == "pid":
        return _pids_by_host(values)
    if kind in ("uuid", "address", "host"):
        return MARK
    ordered = sorted(texts, key=_amount)
    return f"{ordered[0]}..{ordered[-1]}"


def _pids_by_host(values: Sequence[tuple[str, str, str]]) -> str:
    """Return pids by host, ``12 on gpu-01, 7 and 9 on gpu-02``, because a person must see which process would be
    ended.
    """
    pids: dict[str, list[str]] = {}
    for host, _, pid in values[:SHOWN_PIDS]:
        pids.setdefault(host, []).append(pid)
    shown = [f"{_listed(of_host)} on {host}" if host else _listed(of_host) for host, of_host in pids.items()]
    left = len(values) - SHOWN_PIDS
    return ", ".join(shown) + (f", and {left} more" if left > 0 else "")


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _amount(text: str) -> float:
    """Return a number or a duration as a number for comparisons."""
    each = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "": 1.0}
    return sum(float(number) * each[unit] for number, unit in re.findall(r"(\d+(?:\.\d+)?) ?(ms|min|[sh]|)", text))


@dataclass(frozen=True, slots=True)
class Block:
    """The lines about one host; similar lines that follow each other count as one."""

    key: tuple[tuple[str, ...], ...]
    runs: tuple[tuple[tuple[SimilarLine, ...], ...], ...] = field(compare=False)
    """For each line its items, and for each item its similar lines."""


def block_of(lines: Sequence[str], host: str, *, strict: bool) -> Block:
    """Return the block of *lines*, which are about *host*."""
    items = [tuple(line_of(item, host, strict=strict) for item in _items(line)) for line in lines]
    pieces: list[list[tuple[SimilarLine, ...]]] = []
    for key, alike in groupby(items, key=lambda it: tuple(item.key for item in it)):
        together = list(alike)
        if len(key) == 1:
            pieces.append([tuple(each[0] for each in together)])
        else:
            pieces += [[tuple(group) for _, group in groupby(each, key=lambda item: item.key)] for each in together]
    runs = tuple(tuple(piece) for piece in pieces)
    return Block(tuple(tuple(run[0].key for run in each) for each in runs), runs)


def _items(line: str) -> list[str]:
    """Return the items of a list in one line: ``holders: pid 1 holds A; pid 2 holds A``."""
    head = re.match(r" *[\w-]+: ", line)
    if head is None:
        return [line]
    return [head.group(), *line[head.end() :].split("; ")]


def merged_lines(blocks: Sequence[Block]) -> list[str]:
    """Return similar *blocks* as one list of lines."""
    return [_one_line([block.runs[number] for block in blocks]) for number in range(len(blocks[0].runs))]


def _one_line(runs: Sequence[tuple[tuple[SimilarLine, ...], ...]]) -> str:
    texts = []
    for number in range(len(runs[0])):
        alike = [run[number] for run in runs]
        counts = sorted({len(item) for item in alike})
        many = f" ({counts[0]}..{counts[-1]} of these)" if len(counts) > 1 else f" ({counts[0]} of these)"
        text = one_text([line for item in alike for line in item])
        are_named = any(kind == "pid" for kind, _ in alike[0][0].slots)
        texts.append(text + (many if counts != [1] and not are_named else ""))
    head = texts.pop(0) if len(texts) > 1 else ""
    return head + "; ".join(texts)
