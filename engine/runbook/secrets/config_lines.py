"""Mask secrets in the lines of configuration files, from their keys, their blocks or their tags."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from runbook.secrets.detection import (
    BARE_IN_JSON,
    KEY_BLOCK,
    Span,
    bracket_end,
    merged,
    secret_spans,
    value_span,
    without_spans,
)
from runbook.secrets.names import MASK, NOT_A_VALUE, is_secret

_CONFIG_KEY = re.compile(
    r"""[-+ \t]*(?P<comment>[#;]+[ \t]*)?(?:export[ \t]+)?(?:-[ \t]+)?["']?(?P<name>[A-Za-z_][\w.-]*)["']?"""
    r"""[ \t]*(?P<sign>[:=]|[ \t](?=[^\s:=]))[ \t]*(?P<value>.*)"""
)
_OPENS = re.compile(r"""(?:[|>][-+\d]*|[\[{]*|"{3}|'{3})\s*(?:#.*)?""")
_INLINE = re.compile(r"""(["']?)([A-Za-z_][\w.-]{0,100})\1[ \t]*[:=][ \t]*(?=["'\w\[{])""")
_TAG = re.compile(r"<([A-Za-z_][\w.-]{0,100})[^<>]{0,200}>([^<]+)</")


def masked_config(lines: Sequence[str]) -> list[str]:
    """Return *lines* of a configuration file with the values of secrets masked; the number of lines stays the same.

    Lines that are indented below a secret key are secrets, too, and so are the lines of a private key.
    """
    text = "\n".join(lines)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    within_key: set[int] = set()
    for found in KEY_BLOCK.finditer(text):
        first, last = (bisect_right(starts, each) - 1 for each in (found.start(1), found.end(1)))
        within_key.update(range(first + 1, last + (not text[found.end(1) : found.end(1) + 1])))
    masked, secret_from = [], -1
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if secret_from >= 0 and line.strip() and indent <= secret_from and not _closes(line):
            secret_from = -1
        if line.strip() and (number in within_key or (secret_from >= 0 and indent > secret_from)):
            masked.append(line[:indent] + MASK)
            continue
        masked.append(_masked_line(line))
        if (key := _CONFIG_KEY.fullmatch(line)) and _opens_secrets(key):
            secret_from = indent
    return masked


def without_secrets(text: str) -> str:
    """Return *text*, the content of a configuration file, with the values of secrets masked."""
    return "\n".join(masked_config(text.split("\n")))


def _closes(line: str) -> bool:
    return line.strip()[0] in "]})"


def _opens_secrets(key: re.Match[str]) -> bool:
    return key["sign"] in ":=" and bool(_OPENS.fullmatch(key["value"])) and is_secret(key["name"], {})


def _is_prose(key: re.Match[str]) -> bool:
    """Whether *key*, a match that looks like a key and a value separated by a space, is a sentence."""
    return key["sign"] not in ":=" and (bool(key["comment"]) or len(key["value"].split()) != 1)


def _masked_line(line: str) -> str:
    key = _CONFIG_KEY.fullmatch(line)
    if key and key["value"] and not _OPENS.fullmatch(key["value"]) and not _is_prose(key):
        written = key["value"].rstrip(" \t").removesuffix(",").rstrip(" \t")
        value = written.strip("\"'")
        number = 0 if re.fullmatch(r"[-+0-9._]+", value) else value  # max_tokens is a number
        if is_secret(key["name"], number) and value.lower() not in NOT_A_VALUE:
            start = key.start("value")
            return f"{line[:start]}{MASK}{line[start + len(written) :]}"
    spans = [found.span(2) for found in _TAG.finditer(line) if is_secret(found[1], found[2])]
    done = 0
    for found in _INLINE.finditer(line):
        if found.start() >= done and is_secret(found[2], "x8x8x8x8") and (span := _inline(line, found)):
            spans.append(span)
            done = span[1]
    return without_spans(line, merged([*spans, *secret_spans(line)]))


def _inline(line: str, found: re.Match[str]) -> Span | None:
    """Return the span of the value of a key within a line, if it is a secret; for an object or a list, all its
    content.
    """
    if line[found.end()] in "[{":
        span = (found.end() + 1, bracket_end(line, found.end()))
        return span if is_secret(found[2], {}) and re.search(r"[A-Za-z\"']", line[span[0] : span[1]]) else None
    span = value_span(line, found.end(), "", BARE_IN_JSON)
    value = line[span[0] : span[1]]
    number = 0 if re.fullmatch(r"[-+0-9._]+", value) else value
    return span if is_secret(found[2], number) and value.lower() not in NOT_A_VALUE else None
