"""Probe hosts repeatedly, and show the last result of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from runbook.app.monitor.table import HostView
from runbook.app.order import Order
from runbook.app.run import Run
from runbook.errors import TransportError
from runbook.fleet import Cancellation, Fleet
from runbook.protocols import Connection
from runbook.values.command import Command, Completed
from runbook.values.inventory import Host
from runbook.values.result import HostResult

Show = Callable[[Sequence[HostView]], None]
"""Is given what is known of every host, in the order of the hosts."""


class Monitor:
    """Every host at its own pace: one that hangs, or is down, does not delay the others."""

    def __init__(self, order: Order, stop: Cancellation, every: float) -> None:
        self._run = Run(order, (), stop)
        self._kept = _Kept(self._run.fleet.connect)
        self._fleet: Fleet = replace(self._run.fleet, connect=self._kept.connect, emit=lambda event: None)
        self._stop, self._every = stop, every
        self._sights = {host.name: HostView(host=host.name) for host in order.selection.hosts}
        self._due = {host.name: 0.0 for host in order.selection.hosts}
        self._hosts = order.selection.hosts

    def watch(self, show: Show, *, redraw: float = 1.0) -> None:
        """Probe until the run is asked to end; *show* is called when something was seen, and every *redraw* seconds."""
        drawn = 0.0
        with ThreadPoolExecutor(max_workers=max(1, min(self._fleet.parallel, len(self._hosts)))) as pool:
            running: dict[Future[HostResult], Host] = {}
            while not self._stop.level():
                self._begin(pool, running)
                ended = self._take_in(running)
                if ended or time.monotonic() - drawn >= redraw:
                    show(self._now())
                    drawn = time.monotonic()
                time.sleep(0.1)
        self._kept.close()
        self._run.close()

    def _begin(self, pool: ThreadPoolExecutor, running: dict[Future[HostResult], Host]) -> None:
        at_work = {each.name for each in running.values()}
        for host in self._hosts:
            if host.name not in at_work and self._due[host.name] <= time.monotonic():
                self._sights[host.name] = replace(self._sights[host.name], since=time.monotonic())
                running[pool.submit(self._look, host)] = host

    def _take_in(self, running: dict[Future[HostResult], Host]) -> bool:
        ended = [each for each in running if each.done()]
        for future in ended:
            host = running.pop(future)
            self._sights[host.name] = HostView(
                host=host.name, result=self._run.hidden(future.result()), at=time.monotonic()
            )
            self._due[host.name] = time.monotonic() + self._every
        return bool(ended)

    def _look(self, host: Host) -> HostResult:
        (planned,) = self._fleet.plan((host,))
        return planned.result

    def _now(self) -> tuple[HostView, ...]:
        return tuple(self._sights[host.name] for host in self._hosts)


class _Kept:
    """Connections that stay open from one probe to the next."""

    def __init__(self, connect: Callable[[Host], Connection]) -> None:
        self._connect = connect
        self._open: dict[str, _Lasting] = {}
        self._lock = threading.Lock()

    def connect(self, host: Host) -> Connection:
        """The connection to *host*; a new one where there is none, or the last one has broken."""
        with self._lock:
            known = self._open.get(host.name)
        if known is not None and not known.broken:
            return known
        made = _Lasting(self._connect(host))
        with self._lock:
            self._open[host.name] = made
        return made

    def close(self) -> None:
        """Hang up everywhere."""
        for session in self._open.values():
            session.inner.close()


class _Lasting:
    """A connection that is closed only by the one who keeps it, or when it breaks."""

    def __init__(self, inner: Connection) -> None:
        self.inner = inner
        self.broken = False

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """As the inner connection does."""
        try:
            return self.inner.run(*commands)
        except TransportError:
            self.broken = True
            self.inner.close()
            raise

    def close(self) -> None:
        """Nothing: it is used again."""
