"""Locks on a host, so that one run at a time changes it; a lock ends with the connection that holds it.

A lock keeps out every other run that changes the same host as the same user, whatever the login user is.  So a run
takes one lock for each user as whom its steps write.  A lock that other users can write to could be forged, held for
ever, or turned into a link to ``/etc/shadow``.  So the lock is in a place where only its user (and root) can create or
replace files: root's in ``/run/runbook``, another user's in ``~/.cache/runbook`` (or, without a home, in
``/run/user/UID/runbook``, which disappears with the user's last session).  There, each boot and process namespace has
its own directory, because hosts may share home directories.  Locks in other places are not read.  The price: runs that
write as two different users, neither of them root, do not keep each other out, because neither can trust the other's
lock.

An entry names the shell of our connection and its parent (the connection's process of sshd), by pid and start time;
once the connection is gone, nobody holds the lock any more.  Each write adds its own shell (``also``), as the user of
the lock: a shell that outlives the connection keeps the lock until it ends.

``RUNBOOK_LOCK_PLACES`` in the host's own environment names another directory, for tests.  It is used only if it
belongs to this user, is closed to all others, and has a file ``.runbook-locks`` of this user.
"""

from __future__ import annotations

import math
import re

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.shell import LOCK, SAFE
from runbook.values.command import Command, Completed, Effect, read_script

TIMEOUT = 15.0
"""Seconds that the host may take to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHeld:
    """This run has the lock."""

    place: str = ""
    """The directory of the lock; a write adds an entry there, which keeps the lock while the write runs."""
    idle: float = math.inf
    """The seconds for which no run has taken or released a lock of this user here; 0 if that cannot be read."""


AGAIN = "; wait until it ends, then try again"
"""The end of the message about a lock that is not free, for a person who must wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockBusy:
    """Another run has the lock."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockUnavailable:
    """The host cannot hold a lock; the run may continue, but two runs would not notice each other."""

    why: str


def ask_lock(run: str, host: str, words: str, become: str = "") -> Command:
    """Return the command that takes the lock of the user *become* on *host* for *run*; *words*: the holder, for
    people.
    """
    return _lock("take", lock_name(run, host), run, words, become=become)


def ask_unlock(run: str, host: str, become: str = "") -> Command:
    """Return the command that releases the lock of *run* on *host*."""
    return _lock("give", lock_name(run, host), run, become=become, owed=True)


def ask_locks() -> Command:
    """Return the command that prints a line for each lock of its user."""
    return read_script(SAFE + LOCK, "list")


def read_locks(done: Completed) -> tuple[tuple[str, str], ...]:
    """Return each lock: ``held`` or ``asks`` (it is being taken), and the text of its run for people.

    Raises ProbeError if the locks cannot be read.
    """
    if done.exit_code != 0:
        raise ProbeError(done.why_not())
    found = (line.partition(" ")[::2] for line in done.stdout.split("\n"))
    return tuple((kind, words) for kind, words in found if kind in ("held", "asks"))


def _lock(*words: str, become: str, owed: bool = False) -> Command:
    return Command(script=SAFE + LOCK, argv=words, effect=Effect.SCRATCH, timeout=TIMEOUT, become=become, owed=owed)


def lock_name(run: str, host: str) -> str:
    """Return the name of the lock of *run* for *host*; several hosts of an inventory may be one machine."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", f"{run}-{host}")[:300]


def read_lock(done: Completed) -> LockHeld | LockBusy | LockUnavailable:
    """Parse the output of ``ask_lock``."""
    word, _, rest = done.stdout.strip().partition(" ")
    if done.refused:
        return LockUnavailable(why=done.refused)
    if done.exit_code is None:
        return LockBusy(why="it is not known whether another run is changing this host: the host gave no answer")
    if done.exit_code == 0 and word == "held":
        age, _, place = rest.partition(" ")
        return LockHeld(place=place, idle=math.inf if age == "-" else float(age) if age.isdigit() else 0.0)
    if done.exit_code == 0 and word == "busy":
        return LockBusy(why=f"another run is changing this host: {rest}{AGAIN}")
    said = (done.stderr.strip() or rest or done.stdout.strip()).splitlines()
    return LockUnavailable(why=said[-1] if said else "the host gave no reason")
