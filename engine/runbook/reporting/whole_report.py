"""Write a report that others read at any time: the new file replaces the old one as a whole."""

from __future__ import annotations

import io
import os
import stat
from contextlib import suppress
from secrets import token_hex

from runbook.reporting.report_file import NEW, folder_of, refuse_foreign


class WholeReport(io.StringIO):
    """Keeps the written text, and puts it into the file on request: a reader sees the old text or the new one.

    The rules are those of ``report_file.create``, except for the mode if others may read the file: it never writes
    through a link, or over a file of somebody else.
    """

    def __init__(self, path: str, option: str = "--report", mode: int = 0o600) -> None:
        """Raises ConfigError or OSError if *path* must not, or cannot, be written; an existing file stays.

        *option*: the option that named the path.
        """
        super().__init__()
        self._path, self._option, self._mode = path, option, mode
        self._folder, self._name = folder_of(path, option)
        try:
            self._refuse_foreign()
            os.unlink(self._beside(""), dir_fd=self._folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the stream without a change of the file."""
        if not self.closed:
            os.close(self._folder)
        super().close()

    def publish(self) -> None:
        """Replace the file by the text that was written.  Raises ConfigError or OSError; the old file then stays."""
        temporary = self._beside(self.getvalue())
        try:
            self._refuse_foreign()
            os.rename(temporary, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            os.unlink(temporary, dir_fd=self._folder)
            raise

    def _refuse_foreign(self) -> None:
        with suppress(FileNotFoundError):
            refuse_foreign(self._path, os.stat(self._name, dir_fd=self._folder, follow_symlinks=False), self._option)

    def _beside(self, text: str) -> str:
        """Write *text* to a new file in the same directory, and return the name of this file."""
        name = f".{self._name}.{token_hex(4)}"  # no .prom at its end: the collector does not read it
        with os.fdopen(os.open(name, NEW, 0o600, dir_fd=self._folder), "wb") as file:
            try:
                file.write(text.encode("utf-8", "backslashreplace"))
                file.flush()
                os.fchmod(file.fileno(), self._mode)  # by its name another user could have put a link there
                os.fsync(file.fileno())
            except BaseException:
                os.unlink(name, dir_fd=self._folder)
                raise
        return name


def can_be_replaced(path: str) -> bool:
    """Whether *path* is a regular file, or does not exist; a pipe or a device is written to directly."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True
