"""Run programs that list hosts, each once for a command."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from runbook.errors import ConfigError, Problem
from runbook.secrets.detection import masked_text
from runbook.text.printable import printable

PATIENCE = 60.0
"""The maximum number of seconds that a program may take to list its hosts."""

MOST_BYTES = 128 * 1024 * 1024
"""The maximum number of bytes of a program's list."""

MOST_WORDS = 300
"""The maximum number of characters of the program's own message that are repeated."""

_LISTS: dict[tuple[tuple[str, ...], str, str], str] = {}
"""The lists that were printed: the hosts of a command stay the same while it runs."""


def forget_lists() -> None:
    """Forget every list: a program that runs for days asks again for each piece of work."""
    _LISTS.clear()


def known_list(words: tuple[str, ...], folder: str, version: str = "") -> str | None:
    """Return the list that the command *words* has printed in *folder*; None if it was not run yet."""
    return _LISTS.get((words, folder, version))


def printed_list(source: str, words: tuple[str, ...], folder: str, version: str = "", *, missing: str = "") -> str:
    """Return the list that the command *words* prints in *folder*; it is run once for each *version*.

    *source* names the list in messages.  *missing*: a hint for a machine without the program.  Raises ConfigError.
    """
    key = (words, folder, version)
    if key not in _LISTS:
        _LISTS[key] = _printed(source, words, folder, missing)
    return _LISTS[key]


def _printed(source: str, words: tuple[str, ...], folder: str, missing: str) -> str:
    name, *arguments = words
    program = shutil.which(name)
    if not program or not os.path.isabs(program):
        raise ConfigError(Problem(message=f"{source}: there is no {name} on this machine", hint=missing))
    try:
        done = subprocess.run(
            (program, *arguments),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{source}: {name} printed no list within {PATIENCE:.0f} s") from error
    except OSError as error:
        raise ConfigError(f"{source}: {Path(program)}: {(error.strerror or str(error)).lower()}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise ConfigError(f"{source}: {name}: {printable(masked_text(said[-1]))[:MOST_WORDS]}")
    if len(done.stdout) > MOST_BYTES:
        raise ConfigError(f"{source}: the list is larger than {MOST_BYTES // 1024 // 1024} MiB")
    return done.stdout.decode(errors="replace")
