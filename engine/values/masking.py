"""Hide secrets in everything shown: those that are known, in every form, and those that a text gives away."""

from __future__ import annotations

import html
import json
import re
import shlex
from base64 import b64encode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from itertools import accumulate
from typing import TypeVar
from urllib.parse import quote, quote_plus

from engine.text.secret_names import MASK, is_secret
from engine.text.secret_text import HINTS, masked_argv, secret_spans, without_spans
from engine.values.command import Command, shown_variable

T = TypeVar("T")
Mask = Callable[[str], str]

SHORTEST = 4
"""Characters of a secret that is searched for.  A shorter one would blank half of every text: it is never shown by its
name, and not searched for in what others write."""
WORD = 8
"""Characters from which on a secret of letters only, or of digits only, is hidden within longer words, too."""
ORDINARY = frozenset({"root", "admin", "user", "ubuntu", "debian", "test", "none", "null", "true", "false", "default"})
"""Words that a secret may be, and that must stay readable: they are not searched for."""

TELLING = 6
"""Characters of a secret, at a cut, that tell too much of it."""

_CUT = re.compile(r"(\n?\[\.\.\. \d+ bytes left out \.\.\.\]\n?|…|\.\.\.)")
"""Where a text that was too long has been cut; its beginning and its end may be cuts, too."""


class Masking:
    """A function that hides every secret in a text, also where it is quoted, escaped, encoded, or cut off."""

    def __init__(self, secrets: Iterable[str]) -> None:
        whole: set[str] = set()
        words: set[str] = set()
        for secret in dict.fromkeys(secrets):
            if len(secret) < SHORTEST or secret.lower() in ORDINARY:
                continue
            is_word = len(secret) < WORD and (secret.isalpha() or secret.isdigit())
            (words if is_word else whole).add(secret)
            whole |= {form for form in _forms(secret) if form != secret and len(form) >= WORD} if is_word else set()
            whole |= set() if is_word else _forms(secret)
        self._forms = sorted(whole, key=len, reverse=True)
        self._grams = tuple({it.lower()[:TELLING] for it in (*whole, *words)} | {_end(it) for it in whole})
        alternatives = [*map(re.escape, self._forms), *(rf"(?<!\w){re.escape(it)}(?!\w)" for it in words)]
        self._pattern = re.compile("|".join(alternatives), re.IGNORECASE) if alternatives else None

    def __call__(self, text: str) -> str:
        """*text* without secrets."""
        lower = text.lower()
        return self._masked(text, known=any(gram in lower for gram in self._grams))

    def in_all(self, texts: Iterable[str]) -> dict[str, str]:
        """Those of *texts* in which something is to be hidden, each with what to show instead."""
        different = [*dict.fromkeys(texts)]
        lowered = [it.lower() for it in different]
        joined = "\0".join(lowered)
        ends = list(accumulate(len(it) + 1 for it in lowered))
        known, named = _texts_with(self._grams, joined, ends), _texts_with(HINTS, joined, ends)
        masked = ((different[it], self._masked(different[it], known=it in known)) for it in sorted(known | named))
        return {text: shown for text, shown in masked if shown != text}

    def _masked(self, text: str, *, known: bool) -> str:
        if self._pattern and known:
            text = self._pattern.sub(MASK, text)
            parts = _CUT.split(text)
            text = "".join(it if number % 2 else self._uncut(it) for number, it in enumerate(parts))
        return without_spans(text, spans) if (spans := secret_spans(text)) else text

    def _uncut(self, text: str) -> str:
        """*text* without the beginning of a secret at its end, and without the end of one at its beginning."""
        for form in self._forms:
            if found := _overlap(text, form):
                text = text[:-found] + MASK
            if found := _overlap(form, text):
                text = MASK + text[found:]
        return text


def masking(secrets: Iterable[str]) -> Masking:
    """A function that hides *secrets*, and what a text gives away as secrets, in every text."""
    return Masking(secrets)


def _texts_with(words: Iterable[str], joined: str, ends: list[int]) -> set[int]:
    """The numbers of the texts in *joined* that hold one of *words*; *ends* says where each of them ends."""
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


def _overlap(one: str, other: str) -> int:
    """How many characters end *one* and begin *other*, if there are enough to matter; at most all of either."""
    end = one[-TELLING:]
    at = other.rfind(end) if len(end) == TELLING else -1
    while at >= 0:
        if one.endswith(other[: at + TELLING]):
            return at + TELLING
        at = other.rfind(end, 0, at + TELLING - 1)
    return 0


# ---- values --------------------------------------------------------------------------------------------------------

UNKNOWN = "$unknown"
"""The key of a value that is not known, in JSON."""

_BY_ID = frozenset({"look_args", "verify_args"})
"""Fields whose keys are the ids of steps, which say nothing about what is below them."""


def masked(value: T, mask: Mask) -> T:
    """*value* with every text in it, however deep, passed through *mask*, and without what secret names stand for.

    Where nothing is to be hidden it is *value* itself.
    """
    texts: list[str] = []
    plain = _walked(value, lambda text: texts.append(text) or text)  # type: ignore[func-returns-value]
    if isinstance(mask, Masking):
        shown = mask.in_all(texts)
        return _walked(plain, lambda text: shown.get(text, text)) if shown else plain  # type: ignore[return-value]
    return _walked(plain, mask)  # type: ignore[return-value]


def _walked(value: object, mask: Mask, *, by_id: bool = False) -> object:
    """*value* with *mask* on its texts; itself where nothing changes."""
    if type(value) is str:
        return mask(value)
    if isinstance(value, Mapping):
        return _mapping(value, mask, by_id=by_id)
    if type(value) in (list, tuple):
        return _sequence(value, mask)  # type: ignore[arg-type]
    if is_dataclass(value) and not isinstance(value, type):
        return _fields(value, mask)
    return value


def _mapping(value: Mapping[object, object], mask: Mask, *, by_id: bool) -> object:
    made = {
        _walked(key, mask): _hidden(it) if not by_id and _is_hidden(key, it) else _walked(it, mask)
        for key, it in value.items()
    }
    same = len(made) == len(value) and all(one is other for one, other in zip(made, value, strict=True))
    same = same and all(one is other for one, other in zip(made.values(), value.values(), strict=True))
    return value if same else made


def _is_hidden(key: object, value: object) -> bool:
    if not isinstance(key, str) or value is None or isinstance(value, bool) or value in ("", MASK, (), [], {}):
        return False
    if isinstance(value, Mapping) and UNKNOWN in value:  # why it is not known
        return False
    if isinstance(value, int | float) and abs(value) < 100_000:  # {"pass": 3, "fail": 0}
        return False
    return is_secret(key, value)


def _hidden(value: object) -> object:
    """What is shown in the place of *value*: its shape, where it has one."""
    if isinstance(value, Mapping):
        return {key: _hidden(it) for key, it in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_hidden, value))
    return value if value is None or isinstance(value, bool) or value == "" else MASK


def _sequence(value: list[object] | tuple[object, ...], mask: Mask) -> object:
    words: Iterable[object] = value
    if len(value) > 1 and all(type(it) is str for it in value):
        argv = masked_argv(value)  # type: ignore[arg-type]
        words = [one if one == other else other for one, other in zip(value, argv, strict=True)]
    made = [_walked(it, mask) for it in words]
    return value if all(one is other for one, other in zip(made, value, strict=True)) else type(value)(made)


def _fields(value: object, mask: Mask) -> object:
    if isinstance(value, Command):
        value = without_private(value)
    changed = {}
    for name in _names(type(value)):  # type: ignore[arg-type]  # every class can be hashed
        before = getattr(value, name)
        after = _walked(before, mask, by_id=name in _BY_ID)
        if after is not before:
            changed[name] = after
    return replace(value, **changed) if changed else value  # type: ignore[type-var]


def without_private(command: Command) -> Command:
    """*command* as it may be recorded: without the file that it is fed, and without what its variables hold."""
    env = tuple((name, shown_variable(name, value)) for name, value in command.env)
    stdin = command.stdin
    if command.private and stdin:
        stdin = f"({len(stdin)} characters that are not shown)"
    return replace(command, env=env, stdin=stdin) if (env, stdin) != (command.env, command.stdin) else command


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(it.name for it in fields(kind) if it.init)


# ---- forms ---------------------------------------------------------------------------------------------------------


def _within_base64(raw: bytes, encode: Callable[[bytes], bytes]) -> set[str]:
    """What base64 makes of *raw*, alone or within something longer (``user:password``): it takes three bytes a time."""
    whole = encode(raw).decode().rstrip("=")
    inner = (encode(raw[cut : cut + (len(raw) - cut) // 3 * 3]).decode() for cut in range(3))
    return {whole, *(it for it in inner if len(it) >= 8)}


def _escaped(text: str) -> set[str]:
    """*text* as JSON, Python, HTML and Jinja write it."""
    in_json = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    for_html = {f"\\u{ord(sign):04x}": sign for sign in "<>&'"}  # Jinja's tojson
    safe = json.dumps(text)[1:-1]
    for written, sign in for_html.items():
        safe = safe.replace(sign, written)
    in_html = html.escape(text, quote=True)
    return {
        text, *in_json, safe, safe.replace("/", r"\/"), *(it.replace("/", r"\/") for it in in_json), repr(text)[1:-1],
        html.escape(text, quote=False), in_html,
        in_html.replace("&#x27;", "&#39;"), in_html.replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
        in_html.replace("&#x27;", "&apos;"),
    }  # fmt: skip


def _forms(secret: str) -> set[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    written = _escaped(secret)
    written |= {json.dumps(it)[1:-1] for it in written}  # JSON in JSON
    quoted = {it.replace("'", "'\"'\"'") for it in written} | {it.replace("'", r"'\''") for it in written}
    quoted |= {it.replace("'", "'\"'\"'") for it in quoted} | {json.dumps(it)[1:-1] for it in quoted}
    in_url = {quote(raw, safe=safe) for safe in ("", "/", "/:", "~", "-_.!~*'()")} | {quote_plus(raw)}
    in_url |= {quote(it, safe="") for it in in_url}
    encoded = {form for encode in (b64encode, urlsafe_b64encode) for form in _within_base64(raw, encode)}
    return {
        *written, *quoted, *in_url, shlex.quote(secret), raw.hex(), raw.hex(" "), raw.hex(":"),
        "".join(f"\\x{it:02x}" for it in raw), *encoded, *(quote(it, safe="") for it in encoded),
    }  # fmt: skip
