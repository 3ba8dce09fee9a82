"""Decide whose each process is, from the process table and from what the host was asked.

Idle is not left over: only a process whose owner has gone is. Where an owner cannot be asked it is unknown, which
permits no kill.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast

from runbook.library.processes.facts.control_groups import login_in
from runbook.library.processes.facts.owners.evidence import (
    OwnerEvidence,
    ask_owners,
    container_name,
    container_of,
    container_question,
    ended_job,
    job_of,
    read_owners,
    stopped_container,
    stopped_unit,
    unit_question,
)
from runbook.library.processes.facts.owners.model import Kind, Owner
from runbook.library.processes.facts.process_jobs import process_jobs
from runbook.library.processes.facts.protected import Protected, daemon, interactive, programs, script_of, spared
from runbook.library.processes.facts.table import Process, Row, Table
from runbook.values.command import Command
from runbook.values.types import Unknown, long_ago

_INITS = frozenset(("init", "tini", "dumb-init", "docker-init", "catatonit", "systemd", "s6-svscan", "launchd"))
"""Programs that take over orphans; systemd also as the manager of a user."""

_OF_PEOPLE = ("a remote access service", "a terminal that others may be using", "a client program, not a job")
"""Protected programs through which a person works: what they have started is of a session."""

_OF_LOGINS = (*_OF_PEOPLE, "a desktop")
"""Kinds of programs whose scope is that of a living login; ``login`` itself is a part of the system like any other."""

_NOTEBOOK = re.compile(r"jupyter|code-server|marimo")
_NOTEBOOK_MODULES = ("notebook", "nbclassic")
"""Names that are a notebook server's only where an interpreter runs them: ``python -m notebook``."""


def owners_of(pids: Iterable[int], table: Table, evidence: OwnerEvidence) -> dict[int, Owner]:
    """The owner of each of *pids*."""
    logins = _logins(table)
    return {pid: _owner(table.rows[pid], table, logins, evidence) for pid in pids if pid in table.rows}


def of_whole_job(owners: Mapping[int, Owner], family: Iterable[int], pid: int) -> Owner:
    """Return the owner of *pid* as a member of the job *family*.

    A living owner of any member owns the whole job; an unknown owner makes the whole job unknown.  So a launcher in its
    own session, or a helper that has left the allocation, makes no difference.
    """
    own = owners[pid]
    if own.lives:
        return own
    others = [owners[other] for other in family if other in owners]
    living = next((owner for owner in others if owner.lives), None)
    return living or next((owner for owner in (own, *others) if owner.kind == "unknown"), own)


def owned(process: Process, owner: Owner) -> Process:
    """*process* with its *owner*, for people and for expressions."""
    return replace(process, owner=owner.name, ownership=owner.kind)


def family_of(table: Table, pids: Collection[int]) -> frozenset[int]:
    """*pids* with the other processes of their jobs."""
    members = process_jobs(table).members
    return frozenset(pid for one in pids for pid in members.get(one, ()))


def owners_in(table: Table, pids: Collection[int], evidence: OwnerEvidence) -> dict[int, Owner]:
    """Return the owner of each of *pids*, about which the host was asked; the owner of one process of a job owns all
    of it."""
    members, own = process_jobs(table).members, owners_of(pids, table, evidence)
    return {pid: of_whole_job(own, members[pid], pid) for pid in own}


class Spares(Protocol):
    """A state that names whom it leaves alone."""

    @property
    def owned(self) -> tuple[Process, ...]:
        """Return the processes whose owner lives."""

    @property
    def protected(self) -> tuple[Protected, ...]:
        """Return the processes that are never ended, each with the reason."""


S = TypeVar("S", bound=Spares)


def without_owned(
    state: S, processes: tuple[Process, ...], table: Table, *, spare: bool
) -> Generator[Command, Any, tuple[tuple[Process, ...] | Unknown, S]]:
    """Return the processes without a living owner, at work or not, and *state* with the others named in it."""
    if not processes:
        return processes, state
    family = family_of(table, [process.pid for process in processes])
    owners = owners_in(table, family, read_owners((yield ask_owners(family, table)), family, table))
    every = tuple(owned(process, owners[process.pid]) for process in processes)
    if not spare:
        return every, state
    living = tuple(process for process in every if owners[process.pid].lives)
    hidden = tuple(process for process in every if owners[process.pid].kind == "unknown")
    why = tuple(spared(one, f"whose it is, is not known: {owners[one.pid].why}") for one in hidden)
    free = tuple(process for process in every if process not in living and process not in hidden)
    unknown = Unknown(why=str(why[0])) if why else ()
    less: S = replace(cast(Any, state), owned=living, protected=(*state.protected, *why))
    return free or unknown, less


def _owner(row: Row, table: Table, logins: Mapping[str, Row], evidence: OwnerEvidence) -> Owner:
    """Return the first living owner of *row*; else an unknown one; else a former one."""
    answers = [
        answer
        for answer in (_job(row, table, evidence), _container(row, table, evidence), _service(row, table, evidence))
        if answer
    ]
    session = _session(row, table, evidence) or _detached(row, table, logins)
    living = next((owner for owner in (*answers, session) if owner and owner.lives), None)
    if living:
        return living
    if doubt := next((owner for owner in answers if owner.kind == "unknown"), _doubt(row, table, evidence)):
        return doubt
    left = f"; {answers[0].name}" if answers else ""
    if launcher := _launcher(row, table):
        return Owner(kind="supervised", name=f"its launcher, pid {launcher.pid} ({launcher.command[:60]}){left}")
    return Owner(kind="orphan", name=answers[0].name if answers else "none: what started it has gone")


def _doubt(row: Row, table: Table, evidence: OwnerEvidence) -> Owner | None:
    """Return the reason why the owner of *row* is unknown, where no job, service or container stands for it."""
    process = row.process
    if evidence.failed:
        return _unknown(evidence.failed)
    if process.key not in evidence.keys:
        return _unknown("it was started while owners were asked, or there are too many processes")
    if why := evidence.dark.get(process.pid):
        return _unknown(why)
    if evidence.slurmd and process.pid not in evidence.jobs_of:
        return _unknown(f"whether Slurm has a job here: {evidence.slurmd}")
    for above in _ancestors(row, table):  # Slurm says that it has no job here also where it cannot read its own notes
        if not above.defunct and "slurmstepd" in programs(above):
            return _unknown(f"slurmstepd (pid {above.process.pid}) has started it, so that some job of Slurm's lives")
    return None


def _unknown(why: str) -> Owner:
    return Owner(kind="unknown", name=f"unknown: {why}")


def _job(row: Row, table: Table, evidence: OwnerEvidence) -> Owner | None:
    """The Slurm job that *row* belongs to, by its cgroup, its environment, or slurmd."""
    numbers = set(evidence.jobs_of.get(row.process.pid, ()))
    if own := job_of(row, table.rows.get(1)):
        numbers.add(own)
    found: list[Owner] = []
    for number in sorted(numbers, key=int):
        states = evidence.jobs.get(number, Unknown(why="it was not asked for"))
        if isinstance(states, Unknown):
            found.append(_unknown(f"slurm job {number}: {states.why}"))
        elif ended_job(states):
            state = ", ".join(states)
            words = "which Slurm does not know any more" if state == "GONE" else f"which has ended ({state})"
            found.append(Owner(kind="orphan", name=f"slurm job {number}, {words}"))
        else:
            found.append(Owner(kind="allocated", name=f"slurm job {number} ({', '.join(states).lower()})"))
    return _strongest(found)


def _strongest(found: list[Owner]) -> Owner | None:
    living = next((owner for owner in found if owner.lives), None)
    return living or next((owner for owner in found if owner.kind == "unknown"), found[0] if found else None)


def _container(row: Row, table: Table, evidence: OwnerEvidence) -> Owner | None:
    """The container that *row* is in, or its pod, seen from outside of it."""
    box = container_of(row, table.rows.get(1))
    if not box:
        return None
    of_pod = "kubepods" in row.cgroup
    kind: Kind = "allocated" if of_pod else "container"
    called = f"{'kubernetes pod, ' if of_pod else ''}{container_name(box)}"
    answer = _answer_of(container_question(row, table.rows.get(1)), box, evidence)
    if isinstance(answer, Unknown):
        return _unknown(f"{called}: {answer.why}")
    state, name, pod = (*answer, "", "")[:3]
    called = f"kubernetes pod {pod}" if pod else called + (f" ({name.lstrip('/')})" if name else "")
    state = state.removeprefix("CONTAINER_").lower()
    if stopped_container(answer[0]) or stopped_unit(answer[0]):
        return Owner(kind="orphan", name=f"{called}, which does not run any more ({state})")
    return Owner(kind="allocated" if pod else kind, name=f"{called} ({state})")


def _answer_of(question: str, box: str, evidence: OwnerEvidence) -> tuple[str, ...] | Unknown:
    """Answer about the container *box*: its state, and more where an engine was asked."""
    not_asked = Unknown(why="it was not asked for" if question else "no engine here was asked")
    if not question or question.startswith("box:"):
        return evidence.containers.get(box, not_asked)
    state = evidence.units.get(question, not_asked)
    return state if isinstance(state, Unknown) else (state,)


def _service(row: Row, table: Table, evidence: OwnerEvidence) -> Owner | None:
    """Return the systemd service of *row*, unless that service only starts programs of others."""
    question = unit_question(row)
    if not question or container_of(row, table.rows.get(1)):
        return None
    state = evidence.units.get(question, Unknown(why="it was not asked for"))
    unit = row.process.unit
    if isinstance(state, Unknown):
        return _unknown(f"service {unit}: {state.why}")
    if stopped_unit(state):
        return Owner(kind="orphan", name=f"service {unit}, which does not run any more ({state})")
    return Owner(kind="service", name=f"service {unit} ({state})")


def _session(row: Row, table: Table, evidence: OwnerEvidence) -> Owner | None:
    """The login, terminal or notebook that *row* was started from, if that lives."""
    leader = table.rows.get(row.leader)
    if row.terminal and row.leader != 1 and (leader is not None or row.leader in table.way_in):
        user = leader.process.user if leader else row.process.user
        return Owner(kind="session", name=f"session of {user} on {_terminal(row.tty)}{_idle(row.tty, evidence)}")
    for above in _ancestors(row, table):
        if interactive(above):
            return Owner(kind="session", name=f"session of {above.process.user}, pid {above.process.pid}")
        if not above.defunct and (program := _notebook(above)):
            return Owner(
                kind="session", name=f"notebook of {above.process.user}, by {program} (pid {above.process.pid})"
            )
        if why := daemon(above):
            program, _, kind = why.partition(" is ")
            if kind in _OF_PEOPLE:
                return Owner(
                    kind="session", name=f"session of {row.process.user}, by {program} (pid {above.process.pid})"
                )
            return None
    return None


def _detached(row: Row, table: Table, logins: Mapping[str, Row]) -> Owner | None:
    """The login that *row* has left (setsid, nohup, disown), if somebody is still logged in there."""
    login = logins.get(login_in(row.cgroup, _first_group(table)))
    if login is None:
        return None
    program = next(iter(programs(login)), "a shell")
    return Owner(kind="session", name=f"session of {row.process.user}, by {program} (pid {login.process.pid})")


def _logins(table: Table) -> dict[str, Row]:
    """The scopes of logins in which a person still is, each with the first process that shows it."""
    found: dict[str, Row] = {}
    for row in table.rows.values():
        scope = login_in(row.cgroup, _first_group(table))
        if scope and not row.defunct and (interactive(row) or _is_login(daemon(row))):
            found.setdefault(scope, row)
    return found


def _is_login(why: str) -> bool:
    """Whether a program is protected because a person works or has logged in through it; *why*: its protection."""
    program, _, kind = why.partition(" is ")
    return kind in _OF_LOGINS or program == "login"


def _first_group(table: Table) -> str:
    return table.rows[1].cgroup if 1 in table.rows else ""


def _notebook(row: Row) -> str:
    """The name of a notebook server or editor, by the process's own command line; empty: it is neither.

    A process that lies about it is spared, with its children; nothing else is.
    """
    script = script_of(row)
    for word in (*row.argv[:3], *script):
        name = word.rpartition("/")[2]
        if _NOTEBOOK.match(name) or "/.vscode-server/" in word or "/.cursor-server/" in word:
            return name
    return next((name for name in script if name in _NOTEBOOK_MODULES), "")


def _terminal(tty: int) -> str:
    """The name of a terminal by its number, which has the minor in its first and last bits (proc(5), tty_nr)."""
    major, minor = (tty >> 8) & 0xFFF, (tty & 0xFF) | ((tty >> 12) & 0xFFF00)
    if 136 <= major <= 143:
        return f"pts/{(major - 136) * 256 + minor}"
    return f"tty{minor}" if major == 4 else "a terminal"


def _idle(tty: int, evidence: OwnerEvidence) -> str:
    name = _terminal(tty)
    number = name.removeprefix("pts/")
    typed = evidence.typed.get(int(number)) if number.isdigit() and name.startswith("pts/") else None
    return "" if typed is None else f" (nothing typed for {long_ago(typed)})"


def _ancestors(row: Row, table: Table) -> Iterable[Row]:
    """Yield the ancestors of *row*, nearest first; not pid 1."""
    seen = {row.process.pid}
    parent = table.rows.get(row.process.ppid)
    while parent and parent.process.pid not in seen and parent.process.pid != 1:
        seen.add(parent.process.pid)
        yield parent
        parent = table.rows.get(parent.process.ppid)


def _launcher(row: Row, table: Table) -> Process | None:
    """The topmost living process above *row* that has started it: no init, no daemon, no shell of a person."""
    found: Process | None = None
    for above in _ancestors(row, table):
        if above.defunct or _takes_over(above) or daemon(above) or interactive(above):
            break
        found = above.process
    return found


def _takes_over(row: Row) -> bool:
    first = row.argv[0].rpartition("/")[2] if row.argv else ""
    return first in _INITS or row.name in _INITS
