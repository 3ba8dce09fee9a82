"""The records of the plans that this user has applied: a plan can be applied only once."""

from __future__ import annotations

import json
import os
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.records.private_folder import PrivateFolder, Unsafe, state_directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The application of a plan."""

    by: str
    since: str
    """The time when the apply began: ISO 8601, UTC."""
    exit_code: int | None = None
    """The exit code; None if the apply has not finished."""

    def __str__(self) -> str:
        if self.exit_code is None:
            return f"{self.by} began to apply it at {self.since}; that apply is still under way, or was ended half-way"
        return f"{self.by} applied it at {self.since} (exit code {self.exit_code})"


class Usage:
    """The plans that were applied, recorded in the state directory of this user.

    Raises ConfigError if the directory cannot be made or read: then a plan may have been applied already.
    """

    def __init__(self) -> None:
        try:
            self._folder = PrivateFolder(state_directory("plans"))
        except Unsafe as error:
            raise ConfigError(f"a plan is applied once, and that cannot be recorded: {error.strerror}") from error

    def of(self, plan: str) -> Use | None:
        """Return the use of *plan*; None if it was not applied."""
        try:
            raw = self._folder.read(_name(plan))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise self._refused(error) from error
        return _parsed(raw)

    def claim(self, plan: str, use: Use) -> None:
        """Record that *plan* is being applied; of two processes that do so at once, one gets ConfigError."""
        try:
            number = self._folder.create(_name(plan))
        except FileExistsError as error:
            raise ConfigError(f"the plan was already applied: {self.of(plan) or use}") from error
        except OSError as error:
            raise self._refused(error) from error
        try:
            with os.fdopen(number, "wb") as file:
                file.write(_text(use).encode())
                file.flush()
                os.fsync(number)
        except OSError as error:
            self._folder.remove(_name(plan))
            raise self._refused(error) from error

    def release(self, plan: str) -> None:
        """Remove the record that *plan* is being applied, because nothing was sent.  Raises OSError."""
        self._folder.remove(_name(plan))

    def ended(self, plan: str, use: Use) -> None:
        """Record the end of the apply.  Raises OSError."""
        self._folder.write(_name(plan), _text(use))

    def _refused(self, error: Exception) -> ConfigError:
        why = getattr(error, "strerror", None) or str(error)
        return ConfigError(f"a plan is applied once, and that cannot be recorded in {self._folder.path}: {why}")


def _name(plan: str) -> str:
    return f"{plan}.json"


def _text(use: Use) -> str:
    return json.dumps({"by": use.by, "since": use.since, "exit_code": use.exit_code}) + "\n"


def _parsed(raw: str) -> Use:
    """Parse a record and return the use; a damaged record counts as a use, too."""
    try:
        tree: Any = json.loads(raw)
        return Use(by=str(tree["by"]), since=str(tree["since"]), exit_code=tree["exit_code"])
    except (ValueError, TypeError, KeyError):
        return Use(by="somebody", since="an unknown time")
