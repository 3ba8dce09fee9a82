"""Change single values in the text of a configuration file, and leave every other byte of it as it is."""

from engine.facts.patching.keys import key_path, key_text
from engine.facts.patching.patch import Patched, Wanted, format_of, patched, text_of
from engine.facts.patching.tree import ABSENT, Conflict, Unparsable

__all__ = [
    "ABSENT",
    "Conflict",
    "Patched",
    "Unparsable",
    "Wanted",
    "format_of",
    "key_path",
    "key_text",
    "patched",
    "text_of",
]
