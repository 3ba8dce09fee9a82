"""A sudo password for many hosts: tested on one host first, so that a wrong password costs only one failed attempt."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from runbook.connections.sessions.shell import PasswordRefused
from runbook.protocols import Trial

T = TypeVar("T")

POLL = 0.1
"""The seconds between two checks whether a waiting host was asked to end."""


class SharedPassword:
    """The password for sudo.  Until one host has accepted it, it is sent to one host at a time.

    After a refusal, or a possible refusal, it is sent to no host: accounts of a directory service are the same on every
    host, and a wrong password on forty hosts locks the account.
    """

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self._trying = threading.Lock()
        self._taken = False
        self._wrong = ""

    def try_on(self, host: str, give: Callable[[str, Trial], T], check: Callable[[], None]) -> T:
        """See ``runbook.protocols.Password``.  Raises PasswordRefused if another host has refused the password."""
        while not self._taken:
            if not self._trying.acquire(timeout=POLL):
                check()
                continue
            try:
                if not self._taken:
                    return self._alone(host, give)
            finally:
                self._trying.release()
        return give(self.secret, Trial())

    def _alone(self, host: str, give: Callable[[str, Trial], T]) -> T:
        if self._wrong:
            raise PasswordRefused(self._wrong)
        trial = Trial()
        try:
            made = give(self.secret, trial)
        finally:
            if trial.reported and not trial.taken:
                self._wrong = f"the password was not accepted on {host}, and was given to no other host"
        self._taken = True
        return made
