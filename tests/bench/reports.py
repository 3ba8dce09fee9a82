"""What a report on many hosts takes to write and to open, and its size: ``make bench``.  Opening needs chromium."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from runbook.reporting import reporters
from runbook.values.event import RunFinished
from tests.support.browser import Browser
from tests.support.requirements import present
from tests.support.sample_runs import sample_of

ROUNDS = 5


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for many in (3, 100, 1000):
            result = RunFinished(result=sample_of(many))
            for name in ("html", "markdown", "junit", "openmetrics", "json"):
                path, began = Path(folder) / f"{many}.{name}", time.process_time()
                with path.open("w", encoding="utf-8") as stream:
                    reporters.make(name, stream).on(result)
                took = time.process_time() - began
                print(
                    f"{name:12} {many:5} hosts of 12 steps {path.stat().st_size / 1000:9.1f} kB   written in {took:5.2f} s of CPU"
                )
            (Path(folder) / f"{many}.html").rename(Path(folder) / f"page{many}.html")
        if not present("chromium"):
            print("opening: left out, for there is no chromium")
            return
        for many in (3, 100, 1000):
            with Browser() as browser:
                times = [browser.open(Path(folder) / f"page{many}.html") for _ in range(ROUNDS)]
            first, rest = times[0], times[1:]
            print(
                f"html {many:5} hosts: open in {first:5.2f} s in a new browser, {statistics.median(rest):5.2f} s again"
            )


if __name__ == "__main__":
    main()
