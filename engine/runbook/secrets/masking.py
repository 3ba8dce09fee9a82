"""Mask secrets in everything that is shown: known secrets in every form, and secrets that can be recognised in a
text.
"""

from __future__ import annotations

import html
import json
import re
import shlex
from base64 import b64encode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import accumulate
from typing import TypeVar
from urllib.parse import quote, quote_plus

from runbook.secrets.detection import HINTS, masked_argv, merged, secret_spans, without_spans
from runbook.secrets.names import MASK, NOT_A_VALUE, REFERENCE, is_secret
from runbook.text.many_words import FormsByPart, ManyWords


def _within_base64(raw: bytes, encode: Callable[[bytes], bytes]) -> set[str]:
    """Return the forms of *raw* in base64, alone or inside a longer text (``user:password``).

    base64 encodes three bytes at a time, so that there are three such forms.
    """
    whole = encode(raw).decode().rstrip("=")
    inner = (encode(raw[cut : cut + (len(raw) - cut) // 3 * 3]).decode() for cut in range(3))
    return {whole, *(word for word in inner if len(word) >= 8)}


def _escaped(text: str) -> set[str]:
    """Return *text* in the forms that JSON, Python, HTML and Jinja write."""
    in_python = {repr(text)[1:-1], ascii(text)[1:-1]}
    in_json = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    for_html = {f"\\u{ord(sign):04x}": sign for sign in "<>&'"}  # Jinja's tojson
    safe = json.dumps(text)[1:-1]
    for written, sign in for_html.items():
        safe = safe.replace(sign, written)
    in_html = html.escape(text, quote=True)
    return {
        text, *in_json, *in_python, safe, safe.replace("/", r"\/"), *(word.replace("/", r"\/") for word in in_json),
        html.escape(text, quote=False), in_html,
        in_html.replace("&#x27;", "&#39;"), in_html.replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
        in_html.replace("&#x27;", "&apos;"),
    }  # fmt: skip


def _quoted_by_bash(secret: str) -> set[str]:
    """Return *secret* in the forms of bash (``printf %q``, ``${v@Q}``, ``set -x``), and with octal bytes as git
    writes it.
    """
    dollar = "".join(
        {"\n": "\\n", "\t": "\\t", "\r": "\\r", "'": "\\'", "\\": "\\\\"}.get(word, word) for word in secret
    )
    octal = "".join(
        chr(number) if 32 <= number < 127 else f"\\{number:03o}" for number in secret.encode("utf-8", "surrogatepass")
    )
    return {re.sub(r"([^\w@%+=:,./\n-])", r"\\\1", secret), dollar, octal}


def forms_of(secret: str) -> set[str]:
    """Return *secret* unchanged, and in every form in which programs may write it."""
    raw = secret.encode("utf-8", "surrogatepass")
    written = _escaped(secret)
    written |= {json.dumps(word)[1:-1] for word in written}  # JSON in JSON
    quoted = {word.replace("'", "'\"'\"'") for word in written} | {word.replace("'", r"'\''") for word in written}
    quoted |= {word.replace("'", "'\"'\"'") for word in quoted} | {json.dumps(word)[1:-1] for word in quoted}
    in_url = {quote(raw, safe=safe) for safe in ("", "/", "/:", "~", "-_.!~*'()")} | {quote_plus(raw)}
    in_url |= {quote(word, safe="") for word in in_url}
    encoded = {form for encode in (b64encode, urlsafe_b64encode) for form in _within_base64(raw, encode)}
    return {
        *written, *quoted, *in_url, shlex.quote(secret), *_quoted_by_bash(secret),
        raw.hex(), raw.hex(" "), raw.hex(":"), raw.hex(" ", 2), raw.hex(" ", -2),
        "".join(f"\\x{number:02x}" for number in raw), *encoded, *(quote(word, safe="") for word in encoded),
    }  # fmt: skip


T = TypeVar("T")
UNREADABLE = "\ufffd"
"""The character in place of bytes of an output that are no text."""
Mask = Callable[[str], str]

SHORTEST = 4
"""The least length of a secret that is searched for.

A shorter one would blank half of every text.  Its own field is masked, but output of others is not searched for it.
"""
WORD = 8
"""A secret of letters only, or of digits only, is masked within longer words only from this length on."""
ORDINARY = frozenset({"root", "admin", "user", "ubuntu", "debian", "test", "default"}) | NOT_A_VALUE
"""Words that a secret may be, but that must stay readable: texts are not searched for them."""

_OWN_WORDS = (
    "absent blocked cancelled changed critical drifted error failed gone healthy info not_started ok owed planned"
    " present resolved skipped timeout unknown unreachable unresolved warning would_change"
)
OWN_WORDS = frozenset(form for word in _OWN_WORDS.split() for form in (word, word.replace("_", " ")))
"""The words of every report, which no secret may mask: verdicts, statuses, severities (a test compares them)."""

TELLING = 6
"""The number of characters of a secret, at a cut, that would reveal too much."""

_GAP = r"\n\[\.\.\. (?:at least )?\d{1,15} bytes left out \.\.\.\]\n"
_CUT = re.compile(rf"({_GAP}|\n?\[\.\.\. (?:at least )?\d+ bytes left out \.\.\.\]\n?|…|\.\.\.)")
"""The places where a long text was cut; its beginning and its end may be cuts, too."""
_GAPS = re.compile(f"({_GAP})")
"""The places where the middle of an output is missing (``excerpts.gap``)."""

_WRAP = re.compile(r"(?<=[\w+/=%\\-])(?:\r?\n|(?:\\r)?\\n)[ \t]*(?=[\w+/=%\\-])")
"""A line end within a possible encoded secret, also as JSON writes it: base64 ends a line after 76 characters."""


def is_ordinary(secret: str) -> bool:
    """Whether *secret* is a word that must stay readable in every text, so that it cannot be masked."""
    return secret.lower() in ORDINARY or secret.lower() in OWN_WORDS


class Masking:
    """A function that masks every secret in a text, also if the secret is quoted, escaped, encoded, or cut off."""

    def __init__(self, secrets: Iterable[str]) -> None:
        whole: set[str] = set()
        words: set[str] = set()
        for secret in dict.fromkeys(secrets):
            if len(secret) < SHORTEST or is_ordinary(secret):
                continue
            is_word = len(secret) < WORD and (secret.isalpha() or secret.isdigit())
            (words if is_word else whole).add(secret)
            whole |= {form for form in forms_of(secret) if form != secret and len(form) >= WORD} if is_word else set()
            whole |= set() if is_word else forms_of(secret)
        self._forms = sorted(whole, key=len, reverse=True)
        grams = {word.lower()[:TELLING] for word in (*whole, *words)} | {_end(text) for text in whole}
        self._grams = ManyWords(grams, TELLING)
        self._lowered = FormsByPart({form: form[:TELLING] for form in map(_lower, self._forms)}, TELLING)
        self._by_end = FormsByPart({form: form[-TELLING:] for form in self._forms}, TELLING)
        alone = [rf"(?<!\w){re.escape(word)}(?!\w)" for word in words]
        self._words = re.compile("|".join(alone), re.IGNORECASE) if words else None
        self._cuttable = (*self._forms, *words)

    def __call__(self, text: str) -> str:
        """Return *text* with its secrets masked."""
        return self._masked(text, known=self._grams.any_in(text.lower()))

    def in_all(self, texts: Iterable[str]) -> dict[str, str]:
        """Map each of *texts* that contains a secret to its masked form."""
        different = [*dict.fromkeys(texts)]
        lowered = [word.lower() for word in different]
        joined = "\0".join(lowered)
        ends = list(accumulate(len(word) + 1 for word in lowered))
        known, named = _texts_with(self._grams.all_in(joined), joined, ends), _texts_with(HINTS, joined, ends)
        masked = (
            (different[number], self._masked(different[number], known=number in known))
            for number in sorted(known | named)
        )
        return {text: shown for text, shown in masked if shown != text}

    def _masked(self, text: str, *, known: bool) -> str:
        if known:
            text = self._without_whole(text)
            parts = _CUT.split(text)
            text = "".join(part if number % 2 else self._uncut(part) for number, part in enumerate(parts))
        return without_spans(text, spans) if (spans := secret_spans(text)) else text

    def redacted(self, text: str, cut: bool) -> str:
        """Return *text*, the output of a command, with its secrets masked, and also parts of a secret beside a gap.

        *cut*: the end of the output is missing, too, because the command was ended.
        """
        if not self._cuttable or not text:
            return text
        lower = text.lower()
        lines_aside = _WRAP.sub("", lower)
        known = self._grams.any_in(lower) or self._grams.any_in(lines_aside)
        parts = _GAPS.split(self._without_whole(text) if known else text)
        last = len(parts) - 1
        for number in range(0, len(parts), 2):
            part = parts[number] if number == 0 else self._without_end_of_secret(parts[number])
            parts[number] = self._without_begun_secret(part) if number < last or cut else part
        return "".join(parts)

    def _without_whole(self, text: str) -> str:
        """Return *text* with MASK in place of every whole secret."""
        text = self._unwrapped(text)
        lower = _lower(text)
        spans = list(_all_spans(self._lowered.possible(lower), lower))
        spans += [found.span() for found in self._words.finditer(text)] if self._words else []
        return without_spans(text, merged(spans)) if spans else text

    def _unwrapped(self, text: str) -> str:
        """Return *text* with MASK in place of every secret that a line end divides."""
        breaks = [match_.span() for match_ in _WRAP.finditer(text)]
        if not breaks:
            return text
        joined = _lower(_WRAP.sub("", text))
        ends, gone, at = [], 0, []
        for start, end in breaks:
            ends.append(start - gone)
            gone += end - start
            at.append(gone)

        def place(position: int) -> int:
            passed = bisect_right(ends, position)
            return position + (at[passed - 1] if passed else 0)

        long = [form for form in self._lowered.possible(joined) if len(form) >= WORD]
        found = ((place(start), place(end - 1) + 1, end - start) for start, end in _all_spans(long, joined))
        spans = [(start, end) for start, end, length in found if end - start > length]
        return without_spans(text, merged(spans)) if spans else text

    def _uncut(self, text: str) -> str:
        """Return *text* with MASK in place of a cut secret: its beginning at the end of *text*, or its end at the
        beginning.
        """
        for form in self._forms:
            if found := _overlap(text, form):
                text = text[:-found] + MASK
        for form in self._by_end.possible(text):
            if found := _overlap(form, text):
                text = MASK + text[found:]
        return text

    def _without_begun_secret(self, text: str) -> str:
        """Return *text* with MASK in place of even one first character of a secret at its end; half a character may
        follow.
        """
        whole = text.rstrip(UNREADABLE)
        found = max((_overlap(whole, form, 1) for form in self._cuttable), default=0)
        return whole[:-found] + MASK if found else text

    def _without_end_of_secret(self, text: str) -> str:
        """Return *text* with MASK in place of even one last character of a secret at its beginning."""
        whole = text.lstrip(UNREADABLE)
        found = max((_overlap(form, whole, 1) for form in self._cuttable), default=0)
        return MASK + whole[found:] if found else text


def _lower(text: str) -> str:
    """Return *text* in lower case with the same length; a letter whose lower case has several characters stays
    unchanged.
    """
    lower = text.lower()
    return (
        lower if len(lower) == len(text) else "".join(word if len(word.lower()) > 1 else word.lower() for word in text)
    )


def _all_spans(forms: Iterable[str], lower: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of *forms* in *lower*, a text in lower case."""
    for form in forms:
        at = lower.find(form)
        while at >= 0:
            yield at, at + len(form)
            at = lower.find(form, at + len(form))


def masking(secrets: Iterable[str]) -> Masking:
    """Return a function that masks *secrets*, and secrets that can be recognised, in every text."""
    return Masking(secrets)


def _texts_with(words: Iterable[str], joined: str, ends: list[int]) -> set[int]:
    """Return the numbers of the texts in *joined* that contain one of *words*; *ends*: the end of each text."""
    found: set[int] = set()
    for word in words:
        at = joined.find(word)
        while at >= 0:
            number = bisect_right(ends, at)
            found.add(number)
            at = joined.find(word, ends[number])
    return found


def _end(form: str) -> str:
    return form.lower()[-TELLING:]


def _overlap(one: str, other: str, least: int = TELLING) -> int:
    """Return the length of the longest end of *one* that is the beginning of *other*; 0 if shorter than *least*."""
    end = one[-least:]
    at = other.rfind(end) if len(end) == least else -1
    while at >= 0:
        if one.endswith(other[: at + least]):
            return at + least
        at = other.rfind(end, 0, at + least - 1)
    return 0


# ---- values --------------------------------------------------------------------------------------------------------

UNKNOWN = "$unknown"
"""The key of an unknown value, in JSON."""

_BY_ID = frozenset({"look_args", "verify_args"})
"""Fields whose keys are ids of steps, which do not show whether the values are secrets."""


def masked(value: T, mask: Mask) -> T:
    """Return *value* with *mask* applied to every text in it, however deep, and with the values of secret names masked.

    If nothing is masked, it returns *value* itself.
    """
    texts: list[str] = []
    plain = _walked(value, lambda text: texts.append(text) or text)  # type: ignore[func-returns-value]
    if isinstance(mask, Masking):
        shown = mask.in_all(texts)
        return _walked(plain, lambda text: shown.get(text, text)) if shown else plain  # type: ignore[return-value]
    return _walked(plain, mask)  # type: ignore[return-value]


def _walked(value: object, mask: Mask, *, by_id: bool = False) -> object:
    """Return *value* with *mask* applied to its texts; *value* itself if nothing changes."""
    kind = type(value)
    if kind is str:
        return mask(value)  # type: ignore[arg-type]
    if kind in _NO_TEXT or not (shape := _shape(kind)):  # type: ignore[arg-type]  # every class can be hashed
        return value
    if shape is Mapping:
        return _mapping(value, mask, by_id=by_id)  # type: ignore[arg-type]
    return _sequence(value, mask) if shape is list else _fields(value, mask)  # type: ignore[arg-type]


_NO_TEXT = frozenset({int, float, bool, type(None)})


@cache
def _shape(kind: type) -> type | None:
    """Return Mapping, list or object (a dataclass), which the values of *kind* are like; None: they have no text."""
    if issubclass(kind, Mapping):
        return Mapping
    return list if kind in (list, tuple) else object if is_dataclass(kind) else None


def _mapping(value: Mapping[object, object], mask: Mask, *, by_id: bool) -> object:
    made = {
        _walked(key, mask): _hidden(inner) if not by_id and _is_hidden(key, inner) else _walked(inner, mask)
        for key, inner in value.items()
    }
    same = len(made) == len(value) and all(one is other for one, other in zip(made, value, strict=True))
    same = same and all(one is other for one, other in zip(made.values(), value.values(), strict=True))
    return value if same else made


def _is_hidden(key: object, value: object) -> bool:
    if not isinstance(key, str) or value is None or isinstance(value, bool) or value in ("", MASK, (), [], {}):
        return False
    if isinstance(value, Mapping) and UNKNOWN in value:  # why it is not known
        return False
    if isinstance(value, str) and REFERENCE.fullmatch(value):
        return False
    if isinstance(value, int | float) and abs(value) < 100_000:  # {"pass": 3, "fail": 0}
        return False
    return is_secret(key, value)


def _hidden(value: object) -> object:
    """Return *value* with every text and number in it replaced by MASK; mappings and lists keep their shape."""
    if isinstance(value, Mapping):
        return {key: _hidden(it) for key, it in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_hidden, value))
    return value if value is None or isinstance(value, bool) or value == "" else MASK


def _sequence(value: list[object] | tuple[object, ...], mask: Mask) -> object:
    if not value:
        return value
    words: Iterable[object] = value
    if len(value) > 1 and all(type(each) is str for each in value):
        argv = masked_argv(value)  # type: ignore[arg-type]
        words = [one if one == other else other for one, other in zip(value, argv, strict=True)]
    made = [_walked(word, mask) for word in words]
    return value if all(one is other for one, other in zip(made, value, strict=True)) else type(value)(made)


def _fields(value: object, mask: Mask) -> object:
    if (public := getattr(value, "without_private", None)) is not None:
        value = public()
    changed = {}
    for name in _names(type(value)):  # type: ignore[arg-type]  # every class can be hashed
        before = getattr(value, name)
        after = _walked(before, mask, by_id=name in _BY_ID)
        if after is not before:
            changed[name] = after
    return replace(value, **changed) if changed else value  # type: ignore[type-var]


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.init)
