"""Files that a run fetches from hosts into its record."""

from __future__ import annotations

from runbook.dataclass import dataclass
from runbook.text.sizes import bytes_of

TIMED_OUT = (124, 137)
"""The exit codes of timeout(1) when the time limit of its command was reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """The file in the record that receives a command's output."""

    name: str
    """The name of the file."""
    most: int
    """The maximum size in bytes."""
    end: bool = False
    """Whether the end of a longer output is kept; otherwise its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Bytes from a host: the content of a file, or a command's output."""

    content: bytes
    cut: bool = False
    """Whether there was more content than the allowed size."""
    exit_code: int | None = None
    """The exit code of the command; None for a file."""
    timed_out: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """A file in the record."""

    path: str
    """The path below the directory of the records: ``RUN.files/HOST/NAME``."""
    size: int
    """The size in bytes."""
    sha256: str
    """The SHA-256 of the file in the record."""
    cut: bool = False
    """Whether the host has more content than the record."""
    masked: bool = False
    """Whether secrets were found in the content; they are masked in the file."""
    binary: bool = False
    """Whether the content is not text, so that it was not searched for secrets."""
    exit_code: int | None = None
    """The exit code of the command whose output this is; None if it was a file."""
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
    """A file that is not in the record, and the reason."""

    why: str
