"""Connect in a thread, so that an interrupted run does not wait for a library that cannot be interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from runbook.errors import Unreachable
from runbook.protocols import Closing, Interrupt

POLL = 0.2
"""Seconds between two checks whether the run was asked to end."""


C = TypeVar("C", bound=Closing)


def waited_for(make: Callable[[], C], interrupt: Interrupt) -> C:
    """Return the result of *make*, or raise its error.  Raises Unreachable if the run is asked to end first.

    If *make* returns a connection after that, the connection is closed: nothing was sent on it.
    """
    made: list[C] = []
    failed: list[BaseException] = []
    given_up = threading.Event()
    over = threading.Event()

    def work() -> None:
        try:
            it = make()
        except BaseException as error:
            failed.append(error)
        else:
            made.append(it)
            if given_up.is_set():
                it.close()
        finally:
            over.set()

    threading.Thread(target=work, daemon=True).start()
    while not over.wait(POLL):
        if interrupt.level():
            given_up.set()
            if not over.is_set():
                raise Unreachable("the run was asked to end before the host was connected to")
    if failed:
        raise failed[0]
    if given_up.is_set():
        made[0].close()
        raise Unreachable("the run was asked to end before the host was connected to")
    return made[0]
