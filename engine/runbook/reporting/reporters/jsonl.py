"""The jsonl output: every event as it happens, one JSON object a line."""

from __future__ import annotations

from typing import TextIO

from runbook.codec import to_json
from runbook.text.printable import json_text
from runbook.values.event import Event

ENDINGS = ("jsonl", "ndjson")


class Reporter:
    """Writes each event when it happens."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def on(self, event: Event) -> None:
        """Write *event* at once."""
        try:
            text = json_text(to_json(event), self._stream.encoding)
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:  # one event is lost, and says so
            why = f"cannot be written as JSON ({type(error).__name__}: {error})"
            lost = {"kind": event.kind, "host": getattr(event, "host", ""), "error": why}
            text = json_text(lost, self._stream.encoding)
        self._stream.write(text + "\n")
        self._stream.flush()
