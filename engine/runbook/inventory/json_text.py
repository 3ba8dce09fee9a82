"""Tell whether a text is JSON as a program prints it, and read it; such lists are too long for a YAML parser."""

from __future__ import annotations

import json
from typing import Any


def json_in(text: str) -> Any:
    """Return the value of *text*: one JSON value, or a list of the values on its lines; None if it is no JSON."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return None
