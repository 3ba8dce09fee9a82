"""A region of a few lines at the bottom of a terminal, which shows the progress of the run."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from runbook.reporting.reporters.console.progress import Progress
from runbook.reporting.reporters.console.terminal import WORD_STYLES, terminal_size
from runbook.text.printable import printable, printable_line
from runbook.values.event import Event

TICK = 0.1
EVERY = 1.0
"""The seconds between two checks for news, and between two frames while there is no news."""
SHARE = 20
"""Drawing may take at most 1/SHARE of the time; lines in between wait for the next frame."""
STOPPED = 3.0
"""After this number of seconds without a tick, the program was stopped, and others have written to the terminal."""
MOST_LINES = 8
_WORD = re.compile(rf"^(?:\S+: | +)?({'|'.join(WORD_STYLES)})\b")


class LiveDisplay:
    """A terminal with a region at its bottom; all other output is written above it, and stays.

    The cursor stands below the region's last line.  Each line of the region is shorter than the width of the terminal,
    so that it fills one row.  If the terminal has been made narrower, it has folded lines: then as many rows are taken
    back as they fill now.  (A terminal that folds before it reports so, and is written to in between, keeps a line of
    the region; tmux takes a quarter of a second.)
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = Console(file=stream, force_terminal=True, highlight=False, legacy_windows=False)
        self._progress = Progress()
        self._lock = threading.Lock()
        self._frame: list[str] = []
        self._width = 0
        self._asides: deque[str] = deque()
        self._fault: Exception | None = None
        self._drawn = self._ticked = time.monotonic()
        self._cost = 0.0
        """CPU seconds of the last frame."""
        self._above: list[str] = []
        self._ticker: threading.Thread | None = None

    def on(self, event: Event, lines: Sequence[str]) -> None:
        """Write *lines* above the region, and record *event*.  Raises the error of an earlier write, if there
        was one.
        """
        with self._lock:
            if self._fault:
                raise self._fault
            self._progress.on(event, time.monotonic())
            self._above += [printable_line(line) for line in lines]
            if self._may_draw(time.monotonic()):
                self._draw()
            if self._progress.shown and self._ticker is None:
                self._ticked = time.monotonic()
                self._ticker = threading.Thread(target=self._tick, name="console", daemon=True)
                self._ticker.start()

    def aside(self, line: str) -> bool:
        """Let *line* be written above the region soon; return False if there is no region.  Safe in a signal
        handler.
        """
        if not self._frame:
            return False
        self._asides.append(line)
        return True

    def _tick(self) -> None:
        """Draw the region again and again until it is removed."""
        while True:
            time.sleep(TICK)
            with self._lock:
                if not (self._progress.shown or self._asides or self._above):
                    self._ticker = None
                    return
                now = time.monotonic()
                if now - self._ticked > STOPPED:
                    self._frame = []
                self._ticked = now
                try:
                    fresh = (
                        self._asides
                        or self._above
                        or now - self._drawn >= EVERY
                        or terminal_size(self._stream)[0] != self._width
                    )
                    if fresh and self._may_draw(now):
                        self._draw()
                except Exception as error:  # reported to anybody who sends us the next event
                    self._fault, self._ticker = error, None
                    return

    def _may_draw(self, now: float) -> bool:
        return not self._progress.shown or now - self._drawn >= self._cost * SHARE

    def _draw(self) -> None:
        """Remove the region, write the new lines, and draw the region below them, all in one write."""
        began = time.thread_time()
        above, self._above = self._above, []
        asides = [self._asides.popleft() for _ in range(len(self._asides))]
        width, height = terminal_size(self._stream)
        now = time.monotonic()
        most = max(2, min(MOST_LINES, height // 3))
        lines = self._progress.lines(most, width - 1, now) if self._progress.shown else []
        frame = [self._cut(line, width - 1) for line in lines]
        if frame == self._frame and not above and not asides and width == self._width:
            return
        text = self._taken_back(width)
        text += self._painted([*asides, *above], frame)
        self._frame, self._width, self._drawn = frame, width, now
        self._cost = time.thread_time() - began
        self._stream.write(text)
        self._stream.flush()

    def _taken_back(self, width: int) -> str:
        rows = sum(max(1, -(-cell_len(word) // width)) for word in self._frame)
        return f"\r\x1b[{rows}A\x1b[J" if rows else ""

    def _painted(self, above: Sequence[str], frame: Sequence[str]) -> str:
        with self._console.capture() as captured:
            for line in above:
                text = Text(line)
                if found := _WORD.match(line):
                    text.stylize(WORD_STYLES[found.group(1)], *found.span(1))
                self._console.print(text, soft_wrap=True)
            for number, line in enumerate(frame):
                self._console.print(Text(line, style="bold" if number == 0 else "dim"), soft_wrap=True)
        return captured.get()

    def _cut(self, line: str, width: int) -> str:
        """Return *line* in at most *width* cells; characters that the terminal cannot show are written out."""
        encoding = self._stream.encoding or "utf-8"
        plain = printable(" ".join(line.split())) if line.strip() else ""
        shown = (" " * (len(line) - len(line.lstrip())) + plain).encode(encoding, "backslashreplace").decode(encoding)
        more = "…" if self._console.encoding.startswith("utf") else "~"
        return shown if cell_len(shown) <= width else set_cell_size(shown, max(0, width - 1)) + more
