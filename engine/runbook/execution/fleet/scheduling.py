"""Work on many hosts concurrently: new hosts, and hosts that have waited for their turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import field
from typing import Generic, TypeVar

from runbook.dataclass import dataclass
from runbook.execution.executor.cancellation import Cancellation
from runbook.execution.fleet.host_work import Planned
from runbook.execution.fleet.rollout import Rollout
from runbook.protocols import Clock
from runbook.values.inventory import Host

T = TypeVar("T")

POLL = 0.1
"""Seconds between two checks whether the run was asked to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostJobs(Generic[T]):
    """The functions that work on a host; each is called at most once for a host, from any thread."""

    begin: Callable[[Host], T | Planned]
    """Works on a new host; a host that ``waits`` is resumed when its turn comes."""
    resume: Callable[[Planned], T]
    leave: Callable[[Host, str], T]
    """Returns the result of a host that was not started; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(Generic[T]):
    """The hosts of a run that are new, waiting or done; used once."""

    jobs: HostJobs[T]
    rollout: Rollout
    parallel: int
    stop: Cancellation
    clock: Clock
    deadline: float = 0.0
    """Time on the clock after which no host is started; 0: no deadline."""
    fresh: deque[Host] = field(default_factory=deque)
    """The new hosts, in their order."""
    waiting: dict[str, Planned] = field(default_factory=dict)
    """The hosts that need a change and wait for their turn, keyed by name."""
    done: dict[str, T] = field(default_factory=dict)

    def work_off(self, hosts: Sequence[Host]) -> tuple[T, ...]:
        """Work on every host, at most ``parallel`` hosts at a time, and return the results in the order of *hosts*."""
        running: dict[Future[T | Planned], str] = {}
        for name in self.waiting:
            self.rollout.waits(name)
        with ThreadPoolExecutor(max_workers=max(1, min(self.parallel, len(hosts) or 1))) as pool:
            while self.fresh or self.waiting or running:
                self._leave_some()
                self._start_some(pool, running)
                self._take_in(running)
                self._heed_deadline()
        return tuple(self.done[host.name] for host in hosts)

    def _start_some(self, pool: ThreadPoolExecutor, running: dict[Future[T | Planned], str]) -> None:
        """Start work on the free workers: first for waiting hosts that may be changed now, then for new hosts."""
        while len(running) < self.parallel and not self._halted():
            if self.waiting and (name := self.rollout.next(self.waiting)):
                running[pool.submit(self.jobs.resume, self.waiting.pop(name))] = name
            elif self.fresh:
                host = self.fresh.popleft()
                running[pool.submit(self.jobs.begin, host)] = host.name
            else:
                return

    def _take_in(self, running: dict[Future[T | Planned], str]) -> None:
        """Wait for a moment, and record the hosts whose work has ended or that must wait."""
        if not running:
            if self.waiting:
                self.clock.sleep(POLL)
            return
        ended, _ = wait(running, timeout=POLL, return_when=FIRST_COMPLETED)
        for future in ended:
            name, end = running.pop(future), future.result()
            if isinstance(end, Planned) and end.waits:
                self.rollout.waits(name)
                self.waiting[name] = end
            else:
                self.done[name] = end  # type: ignore[assignment] # what does not wait is an end

    def _leave_some(self) -> None:
        """Remove the hosts that will not be started any more, each with the reason as its result."""
        if why := self._halted():
            while self.fresh:
                host = self.fresh.popleft()
                self.done[host.name] = self.jobs.leave(host, why)
                self._spent(why)
        if why := self._halted() or (self.rollout.used_up() if self.waiting else ""):
            for name in list(self.waiting):
                self.done[name] = self.jobs.leave(self.waiting.pop(name).host, why)
                self._spent(why)

    def _halted(self) -> str:
        """Return the reason why no further host may be started; empty: hosts may start."""
        if self.stop.level():
            return self.stop.why or "the run was asked to end"
        return self.rollout.stopped()

    def _spent(self, why: str) -> None:
        """Record *why* if a limit, and not the end of the run, kept a host from being started."""
        if not self.stop.level():
            self.stop.spent = self.stop.spent or why

    def _heed_deadline(self) -> None:
        """Ask the run to end once its deadline has passed."""
        if self.deadline and self.clock.now() >= self.deadline and not self.stop.level():
            self.stop.ask("the deadline of the run has passed", level=1, over=True)
