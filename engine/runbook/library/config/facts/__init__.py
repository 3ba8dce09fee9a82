"""Change single values in the text of a configuration file, and leave every other byte of it as it is."""

from runbook.library.config.facts.config_text import ABSENT, Conflict, Unparsable
from runbook.library.config.facts.key_paths import key_path, key_text
from runbook.library.config.facts.patch import DesiredValues, Patched, format_of, patched, text_of

__all__ = [
    "ABSENT",
    "Conflict",
    "DesiredValues",
    "Patched",
    "Unparsable",
    "format_of",
    "key_path",
    "key_text",
    "patched",
    "text_of",
]
