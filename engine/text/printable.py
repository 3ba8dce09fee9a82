"""Make text of others safe to print: control characters are written out, and it cannot imitate our lines."""

from __future__ import annotations

import json
import re

_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff"  # what turns, breaks or hides text
    "\ud800-\udfff]"  # bytes that were no text
)
_KEEPS_JSON = {number: f"\\u{number:04x}" for number in (*range(0x7F, 0xA0), 0x2028, 0x2029)}


def printable(text: str) -> str:
    r"""*text* with what steers a terminal written out (ESC becomes ``\x1b``); tabs and newlines stay."""
    return _STEERS.sub(_written_out, text)


def printable_line(text: str, indent: str = "    ") -> str:
    """*text* as one thing said: what others wrote below its first line is indented, so that it cannot pass for ours."""
    first, *more = text.splitlines() or [""]
    return "\n".join(printable(word) for word in (first, *(indent + each for each in more if each.strip())))


def on_one_line(text: str, most: int = 0) -> str:
    r"""*text* as one line: its line ends are written out, too (``\n``); in *most* characters where that is not 0."""
    start = text[:most] if most else text
    line = printable(start.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t"))
    return line if not most or (len(line) <= most and len(start) == len(text)) else line[: most - 1] + "…"


def json_text(value: object, encoding: str | None) -> str:
    """*value* as JSON for a stream of *encoding*; nothing in it steers a terminal, and only newlines end lines."""
    everything = (encoding or "utf-8").lower().replace("-", "").replace("_", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not everything, allow_nan=False)
    return text.translate(_KEEPS_JSON)


def _written_out(found: re.Match[str]) -> str:
    number = ord(found.group())
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
