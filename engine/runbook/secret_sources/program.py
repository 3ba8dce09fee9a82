"""Run a program on this machine, such as a password manager, and take its output, with limits on time and size."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from runbook.errors import ConfigError
from runbook.values.types import seconds

LIMIT = 60.0
"""The seconds that a program may take: some programs ask a person first."""

NOT_SHOWN = ": what it says may hold the secret, and is not shown; run the command by hand to see it"

CHUNK = 4096


def printed(argv: Sequence[str], largest: int, limit: float = LIMIT) -> bytes:
    """Return the output of *argv*.  Raises ConfigError, whose message repeats none of the output.

    Output on stderr is dropped, because it may contain the secret, for example under ``set -x``.  No shell reads
    *argv*.
    Without a terminal, the program has its own session, so that all its processes can be ended when its time is up.  On
    a
    terminal it stays in our session, so that it can ask for a passphrase there.
    """
    own_session = not sys.stdin or not sys.stdin.isatty()
    name = f"the program {argv[0]}"
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=own_session,
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{name} cannot be started: {why.lower()}") from error
    out = bytearray()
    try:
        over = _listen(process, out, largest, time.monotonic() + limit)
    finally:
        _end(process, own_session)
    if len(out) > largest:
        raise ConfigError(f"{name} printed more than {largest // 1024} KiB")
    if not over:
        raise ConfigError(f"{name} did not end within {seconds(limit)}{NOT_SHOWN}")
    if process.returncode:
        code = process.returncode
        how = f"exited with {code}" if code > 0 else f"was ended by signal {-code}"
        raise ConfigError(f"{name} {how}{NOT_SHOWN}")
    return bytes(out)


def _listen(process: subprocess.Popen[bytes], out: bytearray, largest: int, until: float) -> bool:
    """Read stdout into *out* until the program has ended; return False if its time was up, or if it printed too
    much.
    """
    assert process.stdout
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        while waiting.get_map():
            left = until - time.monotonic()
            if left <= 0 or len(out) > largest:
                return False
            if waiting.select(min(left, 0.1)):
                chunk = os.read(process.stdout.fileno(), CHUNK)
                out += chunk
                if not chunk:
                    waiting.unregister(process.stdout)
            if process.poll() is not None and not waiting.select(0):
                return True  # what it has started may hold the pipe for ever
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
    return process.returncode is not None


def _end(process: subprocess.Popen[bytes], own_session: bool) -> None:
    """Kill the program if it still runs, and close our end of its pipe."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL) if own_session else process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()
