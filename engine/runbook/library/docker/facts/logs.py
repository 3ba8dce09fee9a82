"""Read the end of a container's log."""

from __future__ import annotations

from runbook.dataclass import dataclass
from runbook.library.docker.facts.containers import FORMAT, Container, container
from runbook.library.docker.facts.engine import ask_docker, epoch, read_docker
from runbook.shell import script
from runbook.values.command import Command, Completed

BYTES = 4 << 20
"""The bytes that are read at most, from the end."""

_LOOK = script(__package__, "logs_read")
"""Lines of the log are indented by one space, so that none of them can pass for one of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The end of a container's log."""

    absent: str = ""
    """The reason why the host is proven to have no Docker; empty: it may have one."""
    whose: Container | None = None
    """The container; None: there is no such container."""
    lines: tuple[str, ...] = ()
    """Each begins with its time and a space; both outputs, oldest first."""
    refused: str = ""
    """The reason why its lines cannot be read."""
    now: float = 0.0
    """The engine's clock, seconds since 1970."""


def ask_log(name: str, tail: int, since: float = 0.0) -> Command:
    """The last *tail* lines of container *name*, only those of the last *since* seconds where that is not 0."""
    return ask_docker(_LOOK, name, str(tail), f"{since:.0f}", str(BYTES), FORMAT)


def read_log(done: Completed) -> Log:
    """Parse the answer to ``ask_log``.  Raises ProbeError."""
    answer = read_docker(done)
    if answer.absent:
        return Log(absent=answer.absent)
    if answer.all("missing"):
        return Log()
    whose, now = container(answer.one("container")), epoch(answer.one("clock"))
    text = tuple(line[1:].removesuffix("\r") for line in done.stdout.split("\n") if line.startswith(" "))
    if answer.one("code") != 0:
        return Log(whose=whose, refused=_refusal(whose, text), now=now)
    return Log(whose=whose, lines=text, now=now)


def _refusal(whose: Container, text: tuple[str, ...]) -> str:
    if whose.log_driver == "none":
        return f"{whose.name} has no log: its log driver is none; recreate it with json-file, local or journald"
    said = text[-1].removeprefix("Error response from daemon: ") if text else "docker gave no reason"
    return f"the log of {whose.name} (driver {whose.log_driver}) cannot be read here: {said}"
