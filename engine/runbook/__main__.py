"""``python -m runbook`` is ``runbook``: Ctrl-C ends it quietly from the start, before the rest is imported."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Import the program and run it."""
    gc.set_threshold(100_000, 20, 50)  # imports make no garbage, and to search it for some takes a fifth of their time
    atexit.register(gc.freeze)  # nor is any searched for at the end
    heeds = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # so it is in the background of a shell
    if heeds:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        os.getcwd()
    except OSError:
        sys.stderr.write("runbook: the working directory does not exist any more: change to another one\n")
        sys.exit(2)
    if sys.path and os.path.realpath(sys.path[0] or ".") == os.path.realpath("."):
        del sys.path[0]  # `python -m` puts the working directory first: whatever lies there is no module of ours
    from runbook.cli import main as run

    try:
        if heeds:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
