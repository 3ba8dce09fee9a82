"""One run at a time changes a host: locks there that end with the connection that holds them.

Whom a lock keeps out: every other run that changes the same host as the same user, whatever user it logs in as.  So a
run takes one lock for each user as whom its steps write.  It lies where nobody but that user (and root) can
make or exchange anything, because a lock that others can write to is one that they can forge, hold for ever, or turn
into a link to ``/etc/shadow``: root's in ``/run/runbook``, another user's in ``~/.cache/runbook`` (or, without a home,
``/run/user/UID/runbook``, which goes with the user's last session), in a directory of its own for each boot and process
namespace, since homes are shared between hosts.  What lies anywhere else is not inspected.  The price: runs that write
as two users, neither of them root, do not keep each other out, for neither may believe the other's lock.

An entry names the shell of our connection and whatever started that (the end of it in sshd), by pid and start; once
the connection is gone, nobody holds it any more.  Each write adds the shell that it runs on (``also``), as the user
whose lock it is: one that still runs after the connection keeps it so long.

``RUNBOOK_LOCK_PLACES`` in the host's own environment names another directory, for tests: it is believed only where it
is this user's own, closed to all others, and holds a file ``.runbook-locks`` of this user's.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from runbook.errors import ProbeError
from runbook.shell import LOCK, SAFE
from runbook.values.command import Command, Completed, Effect, read_script

TIMEOUT = 15.0
"""Seconds that the host may take to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHeld:
    """The lock is ours."""

    place: str = ""
    """The directory of the lock; an entry that a write adds there keeps the lock while that write runs."""
    idle: float = math.inf
    """Seconds for which no run had taken or given back a lock of this user's here; 0 where that cannot be seen."""


AGAIN = "; wait until it ends, then try again"
"""The end of the words for a lock that is not free, for a person who has to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockBusy:
    """Another run has it."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockUnavailable:
    """The host can hold no lock; the run may go on, but two runs would not notice each other."""

    why: str


def ask_lock(run: str, host: str, words: str, become: str = "") -> Command:
    """Take the lock of the user *become* on *host* for *run*; *words* describe the holder to people."""
    return _lock("take", lock_name(run, host), run, words, become=become)


def ask_unlock(run: str, host: str, become: str = "") -> Command:
    """Give the lock of *run* on *host* back."""
    return _lock("give", lock_name(run, host), run, become=become, owed=True)


def ask_locks() -> Command:
    """A line for each lock of the user who asks."""
    return read_script(SAFE + LOCK, "list")


def read_locks(done: Completed) -> tuple[tuple[str, str], ...]:
    """Each lock as ``held`` or ``asks`` (it is just being taken) and what its run says for people.

    Raises ProbeError where that cannot be seen.
    """
    if done.exit_code != 0:
        raise ProbeError(done.why_not())
    found = (line.partition(" ")[::2] for line in done.stdout.split("\n"))
    return tuple((kind, words) for kind, words in found if kind in ("held", "asks"))


def _lock(*words: str, become: str, owed: bool = False) -> Command:
    return Command(script=SAFE + LOCK, argv=words, effect=Effect.SCRATCH, timeout=TIMEOUT, become=become, owed=owed)


def lock_name(run: str, host: str) -> str:
    """One line that distinguishes the locks of a run: hosts of one inventory may be one machine."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", f"{run}-{host}")[:300]


def read_lock(done: Completed) -> LockHeld | LockBusy | LockUnavailable:
    """Parse the answer to ``ask_lock``."""
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
