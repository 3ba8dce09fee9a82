"""Make text from outside safe to print: write out control characters, and prevent imitation of runbook's own lines."""

from __future__ import annotations

import json
import re
import unicodedata

_ODD = re.compile(r"[^\t\n\x20-\x7e]+")
_HIDDEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that are invisible: fillers, a joiner, and variant selectors except that of emoji."""
_KEEPS_JSON = {number: f"\\u{number:04x}" for number in (*range(0x7F, 0xA0), 0x2028, 0x2029)}


def printable(text: str) -> str:
    r"""Return *text* with control characters and invisible characters written out (ESC becomes ``\x1b``); tabs and
    newlines stay.

    It goes by the categories of Unicode: controls, formats (what turns, joins or hides text), halves of pairs, private
    and unassigned characters, and ends of lines and paragraphs.
    """
    return _ODD.sub(_escaped, text)


def printable_line(text: str, indent: str = "    ") -> str:
    """Return *text* with all lines after the first indented, so that they do not look like lines of runbook."""
    first, *more = text.splitlines() or [""]
    return "\n".join(printable(word) for word in (first, *(indent + each for each in more if each.strip())))


def on_one_line(text: str, most: int = 0) -> str:
    r"""Return *text* as one line, with its line ends written out (``\n``), and with at most *most* characters if
    *most* is not 0.
    """
    start = text[:most] if most else text
    line = printable(start.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t"))
    return line if not most or (len(line) <= most and len(start) == len(text)) else line[: most - 1] + "…"


def json_text(value: object, encoding: str | None) -> str:
    """Return *value* as JSON for a stream of *encoding*; it contains no control characters, and only newlines end
    lines.
    """
    everything = (encoding or "utf-8").lower().replace("-", "").replace("_", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not everything, allow_nan=False)
    return text.translate(_KEEPS_JSON)


def _escaped(found: re.Match[str]) -> str:
    part = found.group()
    if part.isprintable() and not _HIDDEN.search(part):
        return part
    return "".join(map(_written_out, part))


def _written_out(char: str) -> str:
    """Return *char*, or its number if the character is invisible (by its Unicode category)."""
    if (char.isprintable() and not _HIDDEN.match(char)) or unicodedata.category(char) == "Zs":
        return char
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
