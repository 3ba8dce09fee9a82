"""One JSON document on the whole run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO, cast

from engine.codec import to_json
from engine.values.event import Event, RunFinished
from engine.values.printable import json_text
from engine.values.result import RunResult

ENDINGS = ("json",)


class Reporter:
    """Writes the document when the run is over, and nothing before."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def on(self, event: Event) -> None:
        """Write the document at the end."""
        if isinstance(event, RunFinished):
            self._stream.write(json_text(document(event.result), self._stream.encoding, indent=1) + "\n")
            self._stream.flush()


def document(result: RunResult) -> Mapping[str, Any]:
    """*result* in the shape of the contract: as the values are, without what only the engine reads."""
    whole = cast("dict[str, Any]", to_json(result))
    for host in whole["hosts"]:
        for step in host["steps"]:
            del step["fault"]
    return whole
