"""The html output: one page that needs no network, on which hosts, steps, findings and outputs can be searched."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import TextIO

from runbook.reporters.html.document import Texts, document, host_record
from runbook.reporters.html.host_times import HostTimes
from runbook.text.name_ranges import fold
from runbook.text.printable import printable
from runbook.values.event import Event, RunFinished
from runbook.values.result import RunResult
from runbook.wording.exit_codes import exit_line
from runbook.wording.summary import causes

ENDINGS = ("html", "htm")

_IN_SCRIPT = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029\x7f"}
"""What could end the element that the text stands in, or that a reader of old takes for a line end."""


class Reporter:
    """Writes the page when the run is over, host by host."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._times = stream, HostTimes()

    def on(self, event: Event) -> None:
        """Write the page at the end of the run."""
        self._times.on(event)
        if isinstance(event, RunFinished):
            self._write(event.result)
            self._stream.flush()

    def _write(self, result: RunResult) -> None:
        texts = Texts()
        page = document(result, texts)
        before, after = _page(result)
        self._put(before)
        self._stream.write('{"run": ' + _json(page.run) + ',\n"hosts": [')
        for number, host in enumerate(result.hosts):
            self._stream.write(",\n" if number else "\n")
            self._stream.write(_json(host_record(host, page, texts, self._times)))
        self._stream.write('\n],\n"texts": ' + _json(texts.all()) + "}\n")
        self._put(after)

    def _put(self, text: str) -> None:
        """Write *text* of the page; what the stream's encoding may lack as references."""
        utf8 = (self._stream.encoding or "utf-8").lower().replace("-", "") == "utf8"
        self._stream.write(text if utf8 else text.encode("ascii", "xmlcharrefreplace").decode("ascii"))


def _page(result: RunResult) -> tuple[str, str]:
    """What stands before the run's own part of the page, and behind it."""
    parts = {name: _part(name) for name in ("page.html", "page.css", "page.js")}
    counts = ", ".join(f"{count} {verdict}" for verdict, count in result.totals.items())
    lines = [f"{fold(cause.hosts)}: {'; '.join(cause.lines)}" for cause in causes(result.hosts)]
    title = f"{result.playbook}: {counts or 'no host'}"
    before, _, after = (
        Template(parts["page.html"])
        .substitute(
            title=escape(printable(title)),
            plain="\n".join(
                escape(printable(line)) for line in (title, exit_line(result.exit_code, result.mode), *lines)
            ),
            css=parts["page.css"],
            js=parts["page.js"],
            css_hash=_hash(parts["page.css"]),
            js_hash=_hash(parts["page.js"]),
            run="\0",
        )
        .partition("\0")
    )
    return before, after


def _part(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="ascii")


def _hash(text: str) -> str:
    """By which the page's own security policy knows its script and its style; no other may run."""
    return b64encode(sha256(text.encode("ascii")).digest()).decode("ascii")


def _json(value: object) -> str:
    """*value* as JSON in ASCII that can stand in an element of a page."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_IN_SCRIPT)
