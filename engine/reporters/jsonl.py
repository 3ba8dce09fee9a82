"""Every event as it happens, one JSON object a line."""

from __future__ import annotations

from typing import TextIO

from engine.codec import to_json
from engine.values.event import Event
from engine.values.printable import json_text

ENDINGS = ("jsonl", "ndjson")


class Reporter:
    """Streams events."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def on(self, event: Event) -> None:
        """Write *event* at once."""
        self._stream.write(json_text(to_json(event), self._stream.encoding) + "\n")
        self._stream.flush()
