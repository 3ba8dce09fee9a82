"""The shell on the host that runs batches of commands one after the other; and the shell that ends such sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from secrets import token_hex

from runbook.connections.sessions.channel import Opener, ShellRefused
from runbook.connections.sessions.programs import confine, control_group, end_group, greeting, killer
from runbook.connections.sessions.shell import PATIENCE, Access, UserShell

Check = Callable[[], None]
"""Raises an error if the caller must not wait any longer."""

GROUPS = {
    "shared": "commands would share their process group with other programs (is there a ForceCommand, or a login "
    "shell that starts another one?), and setsid is missing, so no command could be ended safely",
    "hidden": "there is no /proc, so no command could be ended safely",
}
"""The reason why a shell cannot be a session, keyed by the word about the process group in its greeting."""

LONGEST_NAME = 256
"""The maximum number of characters of a user's name."""

MOST_SURVIVORS = 100
"""The maximum number of surviving processes of one session that are named."""


class SharedGroup(ShellRefused):
    """The shell shares its process group with other processes."""


class ShellSession(UserShell):
    """A shell on the host that runs batches of commands."""

    def __init__(self, opener: Opener, access: Access, *, alone: bool = False) -> None:
        """Open the shell; *alone*: for one change, in a control group of its own, if the host allows it."""
        self.name = token_hex(8)
        self.group = ""
        """The process group of the shell, and the start time of its leader: ``123:4567``."""
        self.cgroup = ""
        """The directory of the session's own control group; empty if it has none."""
        self.root = False
        """Whether the shell runs as root."""
        self.used = 0
        self.harmed = False
        """Whether a command has left a process behind that could not be ended from here."""
        self._user = ""
        self._taught: set[str] = set()
        self._secret = token_hex(16)
        super().__init__(opener, access, greeting(self.name, alone=alone))

    def wait_until_ready(self, check: Check) -> None:
        """Read the greeting of the shell.  Raises ShellRefused if the shell cannot be used, and whatever *check*
        raises.
        """
        words = (*self.await_line(f"session {self.name} ", check).split(" ", 5), *("",) * 5)
        _, _, whose, self.group, root, cgroup = words[:6]
        self.root = root == "yes"
        self.cgroup = cgroup if cgroup.endswith(f"/{control_group(self.name)}") else ""
        self.await_line(f"session {self.name}", check, self.err)
        if whose in GROUPS:
            raise (SharedGroup if whose == "shared" else ShellRefused)(GROUPS[whose])
        if not all(part.isdecimal() for part in self.group.split(":", 1)) or ":" not in self.group:
            raise ShellRefused("its shell does not report its process group")

    def user(self, check: Check) -> str:
        """Return the user of the shell.  Raises ShellRefused if the shell does not report it, and whatever *check*
        raises.
        """
        if not self._user:
            self.give(f"printf '\\n{self.name} %s\\n' \"$(id -un 2>/dev/null || id -u)\"\n")
            self._user = self.await_line(f"{self.name} ", check).partition(" ")[2]
            if not 0 < len(self._user) <= LONGEST_NAME:
                raise ShellRefused("its shell does not report its user")
        return self._user

    def token(self) -> str:
        """Return a new mark; unlike the session's name, it is in no environment and in no argument.

        Only a process that can read the shell's memory, such as a command of the same user, can know the mark.
        """
        self.used += 1
        return f"{self._secret}.{self.used}"

    def give(self, *texts: str) -> None:
        """Send *texts* for the shell to run."""
        self.send("".join(texts).encode())

    def teach(self, texts: Iterable[str]) -> str:
        """Return the *texts* that were not sent to the shell yet; they count as sent from now on."""
        fresh = [text for text in texts if text not in self._taught]
        self._taught.update(fresh)
        return "".join(fresh)


class ConfinedSession(ShellSession):
    """A session of root in its own mount namespace, in which no file system can be written (``confinement.sh``)."""

    def wait_until_ready(self, check: Check) -> None:
        """Enter the namespace, and greet the new shell there.  Raises ShellRefused if the host cannot confine
        commands.
        """
        super().wait_until_ready(check)
        self.give(confine(self.name))
        answer = self.await_line(f"confined {self.name} ", check).split(" ", 2)[2]
        if answer != "yes":
            raise ShellRefused(answer.removeprefix("no "))
        self.give(greeting(self.name))
        super().wait_until_ready(check)


class GroupKiller(UserShell):
    """A shell on the host that ends sessions."""

    def __init__(self, opener: Opener, access: Access) -> None:
        self._over: dict[str, list[str]] = {}
        super().__init__(opener, access, killer())

    def wait_until_ready(self, check: Check) -> None:
        """Wait until the shell takes orders.  Raises ShellRefused if no shell starts, and whatever *check* raises."""
        self.await_line("ready", check)

    def end(self, session: ShellSession, tenths: int, within: float) -> tuple[str, ...] | None:
        """End everything of *session*: send TERM, wait *tenths* of a second, send KILL.

        Returns the survivors, each as ``pid N (state) name``; None if the host did not answer *within* so many seconds.
        """
        reported = self._over[session.name] = []
        self.send(end_group(session.group, session.name, tenths, session.cgroup).encode())
        deadline, late = time.monotonic() + within, False
        while True:
            self._listen(session.name)
            if reported and reported[-1] == "":
                return tuple(word for word in reported if word)
            if late or self.ended or self.flooded:
                self.ended = True
                return None
            late = time.monotonic() > deadline  # what has come until now is still read
            self.pump(PATIENCE)

    def _listen(self, session: str) -> None:
        reported = self._over[session]
        while (line := self.out.line("")) is not None:
            match line.split(" ", 4):
                case ["survivor", name, pid, state, called] if name == session:
                    if len(reported) < MOST_SURVIVORS:
                        reported.append(f"pid {pid[:10]} ({state[:10]}) {called[:64]}")
                    elif len(reported) == MOST_SURVIVORS:
                        reported.append("and more")
                case ["over", name] if name == session:
                    reported += [""] if "" not in reported else []
                case _:
                    pass
