"""Ask a host what owners of processes it knows: jobs, services, containers, terminals; and read the answers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.library.processes.facts.control_groups import CUT, LXC
from runbook.library.processes.facts.table import VALID, Row, Table, lines_of
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown

MOST_PROCESSES = 2000
"""Processes of which owners are asked at once; the rest is unknown."""

_ENDED = {
    "GONE", "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
    "REVOKED", "TIMEOUT",
}  # fmt: skip
"""States of a job that has ended (squeue(1)); GONE: Slurm does not know its number any more."""

_STOPPED_UNIT = ("inactive", "failed")
_STOPPED_CONTAINER = ("exited", "dead", "CONTAINER_EXITED", "stopped")

_USER_UNIT = re.compile(r"/user@([0-9]+)\.service/")
_UNIT_NAME = re.compile(r"[A-Za-z0-9:_.\\@-]{1,247}\.(?:service|scope)")
_ENGINE_ID = re.compile(r"[0-9a-f]{12}")

_LAUNCHERS = re.compile(
    r"(sshd?|dropbear|crond?|cronie|anacron|atd|slurmd|docker|containerd|crio|cri-o|kubelet|podman|xinetd|inetd|"
    r"systemd-logind|munge)\.service|(sshd?|dropbear|getty|serial-getty|console-getty|user|docker|user-runtime-dir)@.*"
)
"""Services that start foreign processes: a process in such a cgroup is no member of the service."""

_QUERY = script(__package__, "owners")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerEvidence:
    """The host's answers about owners."""

    jobs_of: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Pid to the numbers of Slurm jobs that it says, or Slurm says, it belongs to."""
    jobs: Mapping[str, tuple[str, ...] | Unknown] = field(default_factory=dict)
    """Number of a job to its states."""
    units: Mapping[str, str | Unknown] = field(default_factory=dict)
    """A question (``unit:NAME``) to the state of the unit."""
    containers: Mapping[str, tuple[str, ...] | Unknown] = field(default_factory=dict)
    """The id of a container to its state, its name and its pod."""
    ports: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The ports that each process listens on, by pid, without the ports that the kernel chose."""
    typed: Mapping[int, float] = field(default_factory=dict)
    """The number of a terminal in /dev/pts to the seconds since somebody typed into it."""
    dark: Mapping[int, str] = field(default_factory=dict)
    """Pid to why its owner could not be asked."""
    slurmd: str = ""
    """The reason why slurmd could not name the processes of its jobs; empty: it could, or there is no slurmd."""
    keys: Collection[str] = ()
    """The processes that were asked about, by pid and start time."""
    failed: str = ""
    """The reason why nothing could be asked; empty: it could."""


def ask_owners(pids: Iterable[int], table: Table) -> Command:
    """Ask about *pids*, with what their cgroups name."""
    rows = [table.rows[pid] for pid in sorted(set(pids)) if pid in table.rows and not table.rows[pid].defunct]
    rows = rows[:MOST_PROCESSES]
    words: dict[str, None] = {f"pid:{row.process.pid}": None for row in rows}
    outside = table.rows.get(1)
    for row in rows:
        words |= dict.fromkeys(filter(None, (unit_question(row), container_question(row, outside), _job(row, outside))))
    if any(row.leader for row in rows):
        words["ttys"] = None
    ordered = sorted(words, key=lambda word: word.startswith("user:"))  # what users can make many of comes last
    return replace(read_script(_QUERY, *ordered), private=True, valid_for=VALID, timeout=90.0)


def unit_question(row: Row) -> str:
    """Return the question about the service of *row*; empty: it is in no service of its own."""
    unit = row.process.unit
    return "" if not unit or _LAUNCHERS.fullmatch(unit) else _unit_owner(unit, row)


def _unit_owner(unit: str, row: Row) -> str:
    """Question to the manager that has made the *unit* of *row*; empty: no manager calls one so."""
    if not _UNIT_NAME.fullmatch(unit):
        return ""
    user = _USER_UNIT.search(row.cgroup)
    return f"user:{user[1]}:{unit}" if user else f"unit:{unit}"


def container_of(row: Row, outside: Row | None) -> str:
    """Return the container of *row*, as seen from outside; empty: it is in none, or we are in it ourselves."""
    box = row.process.container
    if not box or box.startswith("job_") or (outside and outside.process.container == box):
        return ""
    return box


def job_of(row: Row, outside: Row | None) -> str:
    """Return the Slurm job whose cgroup *row* is in; empty: there is none, or we are in that job ourselves."""
    box = row.process.container
    if not box.startswith("job_") or (outside and outside.process.container == box):
        return ""
    return box.removeprefix("job_")


def container_question(row: Row, outside: Row | None) -> str:
    """Question to the host about the container that *row* is in; empty: nothing here can be asked."""
    box = container_of(row, outside)
    return f"box:{box}" if _ENGINE_ID.fullmatch(box) else _unit_owner(box, row)


def container_name(box: str) -> str:
    """The container *box* in words."""
    if box == CUT:
        return "a container, perhaps: the path of its control group is too long to be read"
    return f"container {box.removeprefix(LXC)}{' (LXC)' if box.startswith(LXC) else ''}"


def _job(row: Row, outside: Row | None) -> str:
    job = job_of(row, outside)
    return f"job:{job}" if job else ""


def read_owners(done: Completed, pids: Iterable[int], table: Table) -> OwnerEvidence:
    """Parse *done*.  Never raises: an owner that cannot be read is unknown."""
    asked = sorted({pid for pid in pids if pid in table.rows and not table.rows[pid].defunct})
    keys = frozenset(table.rows[pid].process.key for pid in asked[:MOST_PROCESSES])
    reported = [line.partition(" ")[::2] for line in done.stdout.split("\n")]
    if done.timed_out or done.exit_code != 0 or ("asked", "") not in reported:
        words = done.stderr.strip().split("\n")[-1]
        why = "no answer in time" if done.timed_out else words or "the script that asks for it failed"
        return OwnerEvidence(failed=f"whose process it is could not be asked: {why}", keys=keys)
    failed = {name: Unknown(why=why) for name, _, why in (text.partition(" ") for text in lines_of("failed", reported))}
    jobs_of: dict[int, set[str]] = {}
    for kind in ("env", "listed"):
        for pid, job in _pairs(lines_of(kind, reported)):
            jobs_of.setdefault(int(pid), set()).add(job)
    ports: dict[int, list[int]] = {}
    for pid, port in _pairs(lines_of("listen", reported)):
        ports.setdefault(int(pid), []).append(int(port))
    return OwnerEvidence(
        jobs_of={pid: frozenset(jobs) for pid, jobs in jobs_of.items()},
        jobs={name.removeprefix("job:"): why for name, why in failed.items() if name.startswith("job:")}
        | {words[0]: tuple(words[1:]) for words in map(str.split, lines_of("job", reported)) if len(words) > 1},
        units={name: why for name, why in failed.items() if name.startswith(("unit:", "user:"))}
        | dict(_pairs(lines_of("unit", reported))),
        containers={name.removeprefix("box:"): why for name, why in failed.items() if name.startswith("box:")}
        | {words[0]: tuple(words[1:]) for words in map(str.split, lines_of("box", reported)) if len(words) > 1},
        ports={pid: tuple(sorted(found)) for pid, found in ports.items()},
        typed=_typed(lines_of("tty", reported)),
        dark={
            int(text): "its environment and its sockets may not be inspected: set `become: true`"
            for text in lines_of("dark", reported)
            if text.isdigit()
        },
        slurmd=failed["slurmd"].why if "slurmd" in failed else "",
        keys=keys,
    )


def _pairs(texts: Iterable[str]) -> list[tuple[str, str]]:
    return [(words[0], words[1]) for words in map(str.split, texts) if len(words) == 2]


def _typed(texts: Iterable[str]) -> dict[int, float]:
    found: dict[int, float] = {}
    for name, seconds in _pairs(texts):
        number = name.rpartition("/")[2]
        if number.isdigit() and seconds.lstrip("-").isdigit():
            found[int(number)] = max(0.0, float(seconds))
    return found


def ended_job(states: tuple[str, ...]) -> bool:
    """Whether Slurm says that a job in *states* has ended."""
    return all(state in _ENDED for state in states)


def stopped_unit(state: str) -> bool:
    """Whether systemd says that a unit in *state* does not run."""
    return state in _STOPPED_UNIT


def stopped_container(state: str) -> bool:
    """Whether the engine says that a container in *state* does not run."""
    return state in _STOPPED_CONTAINER
