"""One lane: a shell on the host that runs frames; and the watchdog that can end it."""

from __future__ import annotations

import time
from collections.abc import Callable
from secrets import token_hex

from engine.errors import ConnectionLost
from engine.sessions.channel import Opener, ShellRefused
from engine.sessions.framed_output import UNREAD
from engine.sessions.hidden_children import cgroup_name
from engine.sessions.shell_programs import LEFTOVERS, WATCHDOG, frame, greeting
from engine.sessions.user_shell import PATIENCE, Access, UserShell

Check = Callable[[], None]
"""Raises when nothing more is to be waited for."""

GROUPS = {
    "shared": "commands would share their process group with other programs (is there a ForceCommand, or a login "
    "shell that starts another one?), and setsid is missing, so no command could be ended safely",
    "hidden": "there is no /proc, so no command could be ended safely",
}
"""Why a shell cannot be a lane, by what its greeting says of its process group."""


LONGEST_NAME = 256
"""Characters that a user's name may have."""

MOST_SURVIVORS = 100
"""Processes of one lane that are named when they outlive their end."""


class ShellSession(UserShell):
    """A shell on the host that runs one frame after the other."""

    def __init__(self, opener: Opener, access: Access, *, cage: bool = False) -> None:
        """*cage*: in a control group of its own, where that can be had: for a change that is carried out."""
        self.name = token_hex(8)
        self.group = ""
        self.cgroup = ""
        """The directory of its control group; empty: it has none of its own."""
        self.user = ""
        self.used = 0
        self.harmed = False
        """A command has left something behind that could not be ended from here."""
        self._sweeps = False
        self._secret = token_hex(16)
        super().__init__(opener, access, frame(greeting(self.name, cage=cage)))

    def wait_until_ready(self, check: Check) -> None:
        """Read the greeting.  Raises Refused when no shell starts that can be a lane, and what *check* raises."""
        words = (*self.await_line(f"lane {self.name} ", check).split(" ", 5), *("",) * 5)
        _, _, whose, self.group, cgroup, self.user = words[:6]
        self.cgroup = cgroup if cgroup.endswith(f"/{cgroup_name(self.name)}") else ""
        self.await_line(f"lane {self.name}", check, self.err)
        if whose in GROUPS:
            raise ShellRefused(GROUPS[whose])
        if not self.group.isdecimal() or not 0 < len(self.user) <= LONGEST_NAME:
            raise ShellRefused("its shell does not report its process group and its user")

    def token(self) -> str:
        """A mark that no command can know: unlike the lane's name, it stands in no environment and no argument."""
        self.used += 1
        return f"{self._secret}.{self.used}"

    def give(self, *texts: str) -> None:
        """Send frames."""
        self.send(b"".join(map(frame, texts)))

    def learn_to_sweep(self) -> None:
        """Have the shell end what the commands of authors leave behind, from the next one on."""
        if not self._sweeps:
            self.give(LEFTOVERS)
            self._sweeps = True


class Watchdog(UserShell):
    """A shell on the host that ends lanes: when it is ordered to, when their time is up, or when the line is gone."""

    def __init__(self, opener: Opener, access: Access) -> None:
        self._over: dict[str, list[str]] = {}
        self._known: set[str] = set()
        """The lanes that were announced to it."""
        self.late: set[str] = set()
        self._ready = False
        self._why = ""
        super().__init__(opener, access, frame(WATCHDOG))

    def wait_until_ready(self, check: Check) -> None:
        """Wait until it takes orders.  Raises Refused when no shell starts, and what *check* raises."""
        if not self._ready:
            self.await_line("ready", check)
            self._ready = True

    def holds(self, lane: ShellSession) -> None:
        """From now on *lane* is ended when the line is gone."""
        self._order("hold", lane)

    def begins(
        self, lane: ShellSession, seconds: float, *, write: bool = False, kill: bool = True, tenths: int = 5
    ) -> None:
        """Something begins on *lane* that is ended on the host after *seconds* (``kill`` false: only reported).

        *tenths* of a second lie between TERM and KILL.  A *write* runs on when the line is gone.
        """
        verb = "write" if write else "begin"
        self._order(verb, lane, str(max(1, -int(-seconds // 1))), "kill" if kill else "never", str(tenths), lane.cgroup)

    def ends(self, lane: ShellSession) -> None:
        """What began on *lane* is over."""
        self._order("end", lane)

    def drops(self, lane: ShellSession) -> None:
        """*lane* is no longer of interest."""
        self._order("drop", lane)

    def finish(self, lane: ShellSession, tenths: int, within: float = 8.0) -> tuple[str, ...] | None:
        """End everything on *lane*: TERM, *tenths* of a second, KILL.

        What survives, each as ``pid N (state) name``; None when the host gave no answer *within* so many seconds.
        """
        self._order("finish", lane, str(tenths))
        return self.wait_over(lane, within)

    def wait_over(self, lane: ShellSession, within: float) -> tuple[str, ...] | None:
        """Wait until the host says that *lane* has been ended; what survives, or None without an answer."""
        deadline, late = time.monotonic() + within, False
        while True:
            reported = self._over.get(lane.name, [])
            if reported and reported[-1] == "":
                return tuple(it for it in reported if it)
            if late or self.ended:
                return None
            late = time.monotonic() > deadline  # what has come until now is still read
            self.listen(PATIENCE)

    def listen(self, seconds: float = 0.0) -> None:
        """Take in what the watchdog has said."""
        if not self.ended:
            self.pump(seconds)
        while (line := self.out.line("")) is not None:
            self._heard(line.split(" ", 4))
        if self.flooded and not self.ended:
            self.ended = True
            self._why = f"it printed over {UNREAD // 1024} KiB of unexpected output"

    def _heard(self, words: list[str]) -> None:
        match words:
            case ["survivor", lane, pid, state, name] if lane in self._known:
                reported = self._over.setdefault(lane, [])
                if len(reported) < MOST_SURVIVORS:
                    reported.append(f"pid {pid[:10]} ({state[:10]}) {name[:64]}")
                elif len(reported) == MOST_SURVIVORS:
                    reported.append("and more")
            case ["over", lane] if lane in self._known:
                reported = self._over.setdefault(lane, [])
                reported += [""] if "" not in reported else []
            case ["late", lane] if lane in self._known:
                self.late.add(lane)
            case ["ready"]:
                self._ready = True
            case _:
                pass

    def _order(self, verb: str, lane: ShellSession, *words: str) -> None:
        if self.ended:
            why = f" ({self._why})" if self._why else ""
            raise ConnectionLost(f"the watchdog that ends commands on the host is gone{why}")
        self._known.add(lane.name)
        self.send(" ".join((verb, lane.group, lane.name, *words)).encode() + b"\n")
