"""The error text that somebody has: from the command line, a file or standard input; bounded, and without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from runbook.app.input_files import kind_of_file
from runbook.errors import ConfigError
from runbook.secrets.detection import masked_text

LARGEST = 4 * 1024 * 1024
"""Bytes of a text that are searched, its last ones: the end of a log is what its reader has come for."""

ONCE = 1024 * 1024
"""Bytes that are read at a time."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_FILE = re.compile(r"@\S+")

WAYS = "runbook find 'ERROR TEXT', runbook find @FILE (or --file FILE), or runbook find - for standard input"


@dataclass(frozen=True, slots=True)
class ErrorText:
    """What is searched."""

    text: str
    """Without colours, and with a mask in place of each secret."""
    cut: bool = False
    """Only the end of it is here."""


def read_error_text(words: Sequence[str], file: str, stdin: Callable[[], IO[bytes]]) -> ErrorText:
    """The error text that a command line means by *words* and the option *file*.  Raises ConfigError."""
    if bool(words) == bool(file):
        raise ConfigError(f"give an error text, in one way: {WAYS}")
    if file:
        return _of_file(file)
    if len(words) == 1 and words[0] == "-":
        return _of_stdin(stdin)
    if len(words) == 1 and _FILE.fullmatch(words[0]):
        return _of_file(words[0][1:])
    return _prepared(" ".join(words).encode(errors="replace"))


def _of_file(name: str) -> ErrorText:
    path = Path(name)
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for, a device never ends
            raise ConfigError(f"cannot read {name}: {kind_of_file(path)}")
        with path.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - LARGEST - 1))
            return _prepared(_end_of(stream))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from error


def _of_stdin(stdin: Callable[[], IO[bytes]]) -> ErrorText:
    try:
        return _prepared(_end_of(stdin()))
    except (OSError, RuntimeError, AttributeError) as error:  # closed, or a directory
        why = getattr(error, "strerror", None) or "it is closed"
        raise ConfigError(f"cannot read standard input: {why}") from error


def _end_of(stream: IO[bytes]) -> bytes:
    """The last bytes of *stream*, one more than are searched if there are more."""
    end = b""
    while piece := stream.read(ONCE):
        end = (end + piece)[-LARGEST - 1 :]
    return end


def _prepared(raw: bytes) -> ErrorText:
    cut = len(raw) > LARGEST
    text = _COLOUR.sub("", raw[-LARGEST:].decode("utf-8", errors="replace"))
    return ErrorText(masked_text(_from_a_whole_line(text) if cut else text), cut)


def _from_a_whole_line(text: str) -> str:
    """*text*, which was cut at its beginning, from where no part of a secret stands: a line, or a private key's end."""
    key_end = _KEY_END.search(text)
    if key_end and "-----BEGIN " not in text[: key_end.start()]:
        return text[key_end.end() :]
    return text[text.find("\n") + 1 :]
