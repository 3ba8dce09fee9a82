"""Files that a run fetches from hosts into its record."""

from __future__ import annotations

from dataclasses import dataclass

from runbook.text.sizes import bytes_of

TIMED_OUT = (124, 137)
"""Exit codes of timeout(1) where the time of its command was up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """The way to keep a command's output."""

    name: str
    """Of the file."""
    most: int
    """Bytes."""
    end: bool = False
    """Where there is more, its end is kept; else its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The bytes that came from a host: the content of a file, or a command's output."""

    content: bytes
    cut: bool = False
    """There was more of it than was asked for."""
    exit_code: int | None = None
    """Of the command; None: it was a file."""
    timed_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """A file of the record."""

    path: str
    """Below the directory of the records: ``RUN.files/HOST/NAME``."""
    size: int
    """Bytes."""
    sha256: str
    """Of the file as it is kept."""
    cut: bool = False
    """There was more of it on the host."""
    masked: bool = False
    """Secrets were found in it, and are not in the file."""
    binary: bool = False
    """It is no text, so that secrets in it are not looked for."""
    exit_code: int | None = None
    """Of the command that printed it; None: it was a file."""
    timed_out: bool = False

    def about(self) -> str:
        """Return the size of the file, and remarks about its content, as text."""
        notes = [
            "cut, there is more on the host" if self.cut else "",
            "secrets masked" if self.masked else "",
            "binary, so not searched for secrets" if self.binary else "",
            "its time was up" if self.timed_out else "",
            f"exit code {self.exit_code}" if self.exit_code and not (self.timed_out or self.cut) else "",
        ]
        return ", ".join([bytes_of(self.size), *filter(None, notes)])


@dataclass(frozen=True, slots=True, kw_only=True)
class NotKept:
    """A file that is not in the record, and why."""

    why: str
