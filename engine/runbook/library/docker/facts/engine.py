"""Query the Docker engine of a host, and explain its errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.processes.facts.known_daemons import REALLY
from runbook.shell import script
from runbook.text.host_json import finite, loads
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import seconds

NEVER = "never"
"""Stands for Docker's 0001-01-01T00:00:00Z: a time that has not come."""

PRELUDE = REALLY + script(__package__, "docker_prelude")
"""Reports if there is no Docker; otherwise defines ``ask``, ``list`` and ``inspect``, after the engine has answered.

Every line of an answer is a word and JSON, so that no name of a container can be taken for another answer.
"""

FIND_DOCKERD = script(__package__, "find_dockerd")


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerAnswer:
    """The answer of the engine, by the first word of each line."""

    rows: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    absent: str = ""
    """The reason why the host is proven to have no Docker; empty: it may have one."""

    def all(self, kind: str) -> tuple[Any, ...]:
        """Return the rest of each line that begins with *kind*."""
        return self.rows.get(kind, ())

    def one(self, kind: str) -> Any:
        """Return the rest of the only such line.  Raises ProbeError where there is none."""
        found = self.all(kind)
        if not found:
            raise ProbeError(f"the output of docker is incomplete ({kind} is missing)")
        return found[0]


def ask_docker(script: str, *parameters: str, timeout: float = 0.0) -> Command:
    """*script* after the PRELUDE; *timeout* in seconds where the usual one of a probe is too short."""
    return replace(read_script(PRELUDE + script, *parameters), timeout=timeout)


def read_docker(done: Completed) -> DockerAnswer:
    """Parse *done*.  Raises ProbeError with the reason, and what to do about it."""
    if done.timed_out or done.exit_code != 0:
        raise ProbeError(fault(done))
    rows: dict[str, list[Any]] = {}
    for line in done.stdout.split("\n"):
        kind, _, text = line.partition(" ")
        if not kind:
            continue
        try:
            rows.setdefault(kind, []).append(loads(text))
        except ValueError as error:
            raise ProbeError(f"the output of docker could not be parsed: {line[:100]!r}") from error
    if "no_docker" in rows:
        return DockerAnswer(absent="no Docker on this host: no docker command, no socket, no dockerd process")
    if "no_client" in rows:
        raise ProbeError(f"found {rows['no_client'][0]}, but no docker command: install the Docker client")
    if "podman" in rows:
        raise ProbeError(
            "the docker command on this host is podman, which keeps its containers elsewhere: use podman by hand"
        )
    return DockerAnswer(rows={kind: tuple(row) for kind, row in rows.items()})


_UNREACHABLE = re.compile(
    r"(?:cannot|failed to) connect to the docker (?:daemon|api)(?: at ([^\s;,]+))?", re.IGNORECASE
)
_FORBIDDEN = re.compile(r"permission denied while trying to connect|connect: permission denied", re.IGNORECASE)
_NOISE = re.compile(r"^(?:WARNING|DEPRECATED|\s*$|errors pretty printing)")
_LOOK_THERE = "`runbook run docker-recover` says why, and starts it (by hand: `journalctl -u docker -n 50`)"


def fault(done: Completed) -> str:
    """Return the reason why docker did not answer, in words, with what to do."""
    if done.timed_out:
        return f"Docker does not answer (nothing in {seconds(done.seconds)}): its daemon hangs; {_LOOK_THERE}"
    said = done.stderr.strip()
    if _FORBIDDEN.search(said):
        return "no permission to talk to Docker: give the step `become: true`, or log in as a member of group docker"
    if found := _UNREACHABLE.search(said):
        place = f", or does not listen at {found[1].rstrip('.')}" if found[1] else ""
        return f"the Docker daemon is not running{place}; {_LOOK_THERE}"
    lines = [line.strip() for line in said.splitlines() if not _NOISE.match(line)]
    words = lines[0].removeprefix("Error response from daemon: ").removeprefix("Error: ") if lines else ""
    return f"docker failed: {words}" if words else f"docker failed with exit code {done.exit_code} and no message"


_GO_TIME = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?) ([+-]\d{4}).*")


def epoch(text: str) -> float:
    """Seconds since 1970 of a time as Docker writes it, in either form; 0 where it never was, or cannot be read."""
    if found := _GO_TIME.fullmatch(text):
        text = f"{found[1]}T{found[2]}{found[3]}"
    try:
        return max(0.0, datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        return 0.0


def when(text: str) -> str:
    """*text*, or ``never`` for Docker's year one."""
    return text if epoch(text) else NEVER


_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}


def bytes_of(text: str) -> int:
    """Bytes of ``1.98MB`` as docker prints it, in decimal units.  Raises ProbeError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([kMGTP]?B)", text.strip())
    if not found:
        raise ProbeError(f"a size that docker printed could not be parsed: {text!r}")
    return round(finite(found[1]) * _UNITS[found[2]])


def amount(number: int) -> str:
    """Bytes as docker prints them: ``1.98 MB``."""
    size = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.4g} TB"
