"""Split the output of a session at the marks that follow each command."""

from __future__ import annotations

from runbook.dataclass import dataclass
from runbook.values.excerpts import gap

KEPT = 2 * 1024 * 1024
"""The bytes that are kept from the beginning, and as many from the end, of one stream of one command."""

SLACK = 256 * 1024
"""The bytes by which the end may exceed that size before it is cut."""

UNREAD = 1024 * 1024
"""The most bytes that wait for the expected mark, line or prompt; further bytes are dropped.

Output of a command is taken out as it arrives, so that only unexpected output can grow so much.
"""

LONGEST_WORD = 64
"""The maximum number of bytes of the word in a mark, which is an exit code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedOutput:
    """The output of one command on one stream."""

    text: str
    word: str = ""
    """The word in the mark behind the output: an exit code."""
    missing: int = 0
    """The number of bytes that were left out of the middle."""


class Capture:
    """The output of one command on one stream; if the output is too long, only its beginning and its end."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._head, self._tail, self._cut = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """Add *data* to the output."""
        room = self._kept - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > self._kept + SLACK:
            over = len(self._tail) - self._kept
            self._cut += over
            del self._tail[:over]

    def part(self, word: str = "") -> CapturedOutput:
        """Return the whole output; or its beginning and its end, with a line between them about the missing bytes."""
        over = max(0, len(self._tail) - self._kept)
        cut, tail = self._cut + over, self._tail[over:]
        if not cut:
            return CapturedOutput(text=(self._head + tail).decode("utf-8", "replace"), word=word)
        head, end = (each.decode("utf-8", "replace") for each in (self._head, tail))
        return CapturedOutput(text=f"{head}{gap(cut)}{end}", word=word, missing=cut)


class Stream:
    """One stream of a session: it takes bytes, and returns the output before each mark with the word behind the
    mark.
    """

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._capture = Capture()
        self.flooded = False
        """Whether so much output has arrived that a part was dropped; then the shell cannot be used any more."""

    def keep(self, most: int) -> None:
        """Keep at most *most* bytes from the beginning and from the end of the next output."""
        self._capture = Capture(max(0, min(most, KEPT)))

    def feed(self, data: bytes) -> None:
        """Add bytes that arrived on the channel."""
        if data and len(self._waiting) > UNREAD:
            self.flooded = True
        else:
            self._waiting += data

    def take(self, token: str) -> CapturedOutput | None:
        """Return the output before the mark *token*, and the word behind the mark; None if the mark has not arrived
        yet.
        """
        mark = f"\n{token}".encode()
        at = self._waiting.find(mark)
        end = self._waiting.find(b"\n", at + len(mark)) if at >= 0 else -1
        if at >= 0 and end < 0 and len(self._waiting) > at + len(mark) + LONGEST_WORD:
            end = at + len(mark) + LONGEST_WORD  # no mark of ours: it will hold no exit code
        if at < 0 or end < 0:
            safe = len(self._waiting) - len(mark) - 16 if at < 0 else at
            if safe > 0:
                self._capture.add(bytes(self._waiting[:safe]))
                del self._waiting[:safe]
            return None
        self._capture.add(bytes(self._waiting[:at]))
        word = self._waiting[at + len(mark) : end].decode("ascii", "replace").strip()
        del self._waiting[: end + 1]
        part, self._capture = self._capture.part(word), Capture()
        return part

    def rest(self) -> CapturedOutput:
        """Return and remove all output that has arrived and precedes no mark."""
        self._capture.add(bytes(self._waiting))
        self._waiting.clear()
        part, self._capture = self._capture.part(), Capture()
        return part

    def line(self, beginning: str) -> str | None:
        """Return the first whole line that begins with *beginning*, and drop the text before it.

        None: no such line has arrived yet.
        """
        start = beginning.encode()
        at = 0 if self._waiting.startswith(start) else self._waiting.find(b"\n" + start) + 1
        if at == 0 and not self._waiting.startswith(start):
            return None
        end = self._waiting.find(b"\n", at)
        if end < 0:
            return None
        found = self._waiting[at:end].decode("utf-8", "replace")
        del self._waiting[: end + 1]
        return found

    def passes(self, text: str) -> bool:
        """Whether *text* has arrived; if so, drop everything up to its end."""
        at = self._waiting.find(text.encode())
        if at >= 0:
            del self._waiting[: at + len(text.encode())]
        return at >= 0
