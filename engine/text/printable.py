"""Make text that others wrote safe to show: nothing in it may steer a terminal, or pass for lines of ours."""

from __future__ import annotations

import json
import re

_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff"  # what turns, breaks or hides text
    "\ud800-\udfff]"  # bytes that were no text
)
_KEEPS_JSON = {it: f"\\u{it:04x}" for it in (*range(0x7F, 0xA0), 0x2028, 0x2029)}


def printable(text: str) -> str:
    r"""*text* with what steers a terminal written out (ESC becomes ``\x1b``); tabs and newlines stay."""
    return _STEERS.sub(_written_out, text)


def printable_line(text: str, indent: str = "    ") -> str:
    """*text* as one thing said: what others wrote below its first line is indented, so that it cannot pass for ours."""
    first, *more = text.splitlines() or [""]
    return "\n".join(printable(it) for it in (first, *(indent + it for it in more if it.strip())))


def json_text(value: object, encoding: str | None, indent: int | None = None) -> str:
    """*value* as JSON for a stream of *encoding*; nothing in it steers a terminal, and only newlines end lines."""
    everything = (encoding or "utf-8").lower().replace("-", "").replace("_", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not everything, indent=indent, allow_nan=False)
    return text.translate(_KEEPS_JSON)


def _written_out(found: re.Match[str]) -> str:
    number = ord(found.group())
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
