"""What others wrote is shown as it is where it can be seen, and written out where it cannot."""

from __future__ import annotations

import sys
import unicodedata

from runbook.text.printable import printable
from tests.support.tables import every_row

HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def test_no_character_of_a_hidden_category_comes_through():
    """Mutants: ``_written_out`` without one of the categories; ``_seen`` that gives the part as it is."""
    for number in range(sys.maxunicode + 1):
        char = chr(number)
        hidden = unicodedata.category(char) in HIDDEN and char not in "\t\n"
        if hidden:
            shown = printable(f"a{char}b")
            assert shown.isascii(), hex(number)
            assert int(shown[3:-1], 16) == number


@every_row("char", ["\U000e0041", "\u00ad", "\u180e", "\U000e0100", "\u3164", "\ufe00", "\u115f", "\u202e", "\x9b"])
def test_what_shows_nothing_is_written_out_among_what_shows(char):
    """Mutants: printable.py without ``_HIDDEN``, in either place."""
    for text in (char, f"é{char}日", f"a{char}b"):
        shown = printable(text)
        assert char not in shown
        assert shown.replace("é", "").replace("日", "").isascii()


@every_row("text", ["plain", "é 日本 Ж", "❤\ufe0f", "a\u00a0b\u2003c", "┌─┐ █ ⠋", "\U0001f680", "\t\n", "o\u0308"])
def test_what_can_be_seen_stays(text):
    """Mutants: printable.py that goes by ``isprintable`` alone, or by ASCII."""
    assert printable(text) == text
