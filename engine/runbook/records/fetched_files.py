"""Keep the files that a run fetches from hosts: secrets masked, size limited, mode 600, each file completely or not
at all.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from hashlib import sha256
from urllib.parse import quote

from runbook.records.private_folder import PrivateFolder
from runbook.secrets.config_lines import without_secrets
from runbook.text.sizes import bytes_of
from runbook.values.kept_file import Fetched, KeptFile, NotKept
from runbook.values.types import Json

ENDING = ".files"
"""The ending of the directory for a run's files, after the run's id."""

MOST_OF_HOST = 64 * 1024 * 1024
"""The maximum number of bytes that one run keeps from one host."""

MOST_OF_RUN = 1024 * 1024 * 1024
"""The maximum number of bytes that one run keeps from all hosts."""

LONGEST_LINE = 100_000
"""Most characters of a line; a file with a longer one was not written by people.

It is not searched for secrets as a configuration file is.
"""

INSPECTED = 8192
"""The bytes at the beginning of a file that decide whether it is text."""

_BINARY = re.compile(rb"\0|\A(?:\x1f\x8b|\x28\xb5\x2f\xfd|\xfd7zXZ|BZh|PK\x03\x04|\x7fELF)")


class FetchedFiles:
    """The fetched files of one run; used by many threads."""

    def __init__(self, folder: PrivateFolder, run: str, mask: Callable[[str], str]) -> None:
        self.where = str(folder.path)
        self._folder, self._run, self._mask = folder, run, mask
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}
        self._names: set[str] = set()

    def keep(self, host: str, name: str, fetched: Fetched) -> KeptFile | NotKept:
        """Write *fetched* to a file of *host*; if the name is taken, add a number."""
        binary = bool(_BINARY.search(fetched.content[:INSPECTED]))
        content = fetched.content if binary else self._masked(fetched.content)
        with self._lock:
            if why := self._too_much(host, len(content)):
                return NotKept(why=why)
            self._sizes[host] = self._sizes.get(host, 0) + len(content)
            path = self._free(f"{self._run}{ENDING}/{folder_name(host)}/{file_name(name)}")
        folder, _, last = path.rpartition("/")
        try:
            PrivateFolder(self._folder.path / folder).write(last, content)
        except OSError as error:
            return NotKept(why=f"{self.where}/{path} cannot be written: {error.strerror or error}")
        return KeptFile(
            path=path,
            size=len(content),
            sha256=sha256(content).hexdigest(),
            cut=fetched.cut,
            masked=content != fetched.content,
            binary=binary,
            exit_code=fetched.exit_code,
            timed_out=fetched.timed_out,
        )

    def _masked(self, content: bytes) -> bytes:
        text = self._mask(content.decode("utf-8", "surrogateescape"))
        if max(map(len, text.split("\n"))) <= LONGEST_LINE:
            text = without_secrets(text)
        return text.encode("utf-8", "surrogateescape")

    def _too_much(self, host: str, size: int) -> str:
        """Return the reason why there is no room for a file of *size* bytes; empty if there is room."""
        if self._sizes.get(host, 0) + size > MOST_OF_HOST:
            return f"a run keeps at most {bytes_of(MOST_OF_HOST)} of one host, and the files before it fill that"
        if sum(self._sizes.values()) + size > MOST_OF_RUN:
            return f"a run keeps at most {bytes_of(MOST_OF_RUN)} of all hosts, and the files before it fill that"
        return ""

    def _free(self, path: str) -> str:
        number, free = 1, path
        while free in self._names:
            number += 1
            free = f"{path}.{number}"
        self._names.add(free)
        return free


def folder_name(host: str) -> str:
    """Return the directory name for *host*, which cannot lead out of its parent; different hosts have different
    names.
    """
    name = quote(host, safe="")[:200]
    return name if name.strip(".") and name == quote(host, safe="") else f"%{sha256(host.encode()).hexdigest()[:16]}"


def file_name(name: str) -> str:
    """Return *name* in a form that cannot lead out of its directory."""
    return quote(name, safe="")[:150].lstrip(".") or "file"


def names_of(folder: PrivateFolder, run: str) -> Iterator[tuple[PrivateFolder, str, int]]:
    """Yield the files that *run* has fetched: their directory, their name and their size.  Raises OSError."""
    top = PrivateFolder(folder.path / f"{run}{ENDING}")
    for host in top.names(""):
        inner = PrivateFolder(top.path / host)
        for entry in inner.entries(""):
            yield inner, entry.name, entry.size


def size_of_files(folder: PrivateFolder, run: str) -> int:
    """Return the size of all files that *run* has fetched, in bytes.  Raises OSError."""
    return sum(size for _, _, size in names_of(folder, run))


def remove_files(folder: PrivateFolder, run: str) -> None:
    """Remove every file that *run* has fetched, and their directories.  Raises OSError."""
    for inner, name, _ in list(names_of(folder, run)):
        inner.remove(name)
    top = PrivateFolder(folder.path / f"{run}{ENDING}")
    for host in top.names(""):
        top.remove_directory(host)
    folder.remove_directory(f"{run}{ENDING}")


def faults_of_files(folder: PrivateFolder, events: Iterator[Json]) -> Iterator[str]:
    """Yield the fetched files that are missing or changed; *events*: the events of the journal that names them."""
    for event in events:
        result = event.get("result") if isinstance(event, dict) and event.get("kind") == "step_finished" else None
        kept = result.get("kept") if isinstance(result, dict) else None
        for one in kept if isinstance(kept, list) else []:
            path, digest = (one.get("path"), one.get("sha256")) if isinstance(one, dict) else (None, None)
            if isinstance(path, str) and (why := _fault(folder, path, digest)):
                yield f"{path}: {why}"


def _fault(folder: PrivateFolder, path: str, digest: object) -> str:
    inner, _, name = path.rpartition("/")
    if not inner or ".." in path.split("/") or path.startswith("/"):
        return "it is no path of a fetched file"
    try:
        with PrivateFolder(folder.path / inner).opened(name) as file:
            found = sha256(file.read()).hexdigest()
    except FileNotFoundError:
        return "it is gone, and was not removed by `runbook history prune`"
    except OSError as error:
        return error.strerror or str(error)
    return "" if found == digest else "it is not the file that was fetched: its digest is another one"
