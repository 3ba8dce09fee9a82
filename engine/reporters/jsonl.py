"""Every event as it happens, one JSON object a line."""

from __future__ import annotations

import json
from typing import TextIO

from engine.codec import to_json
from engine.values.event import Event

ENDINGS = ("jsonl", "ndjson")


class Reporter:
    """Streams events."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def on(self, event: Event) -> None:
        """Write *event* at once."""
        self._stream.write(json.dumps(to_json(event), ensure_ascii=False, allow_nan=False) + "\n")
        self._stream.flush()
