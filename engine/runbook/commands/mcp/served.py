"""Limits that the command line of ``runbook mcp`` sets to an assistant: the inventory, the hosts, and the playbooks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from threading import Lock

from runbook.commands.history.recording import hosts_in_records, records_folder
from runbook.commands.input_files import find_playbook, inventory_paths, playbook_files, read_inventory
from runbook.commands.inventory_sources import lasting_name
from runbook.commands.nobody import Nobody
from runbook.commands.options import FleetOptions
from runbook.commands.order import Order
from runbook.commands.sources import times
from runbook.commands.step_resolution import CONTROLLER
from runbook.dataclass import dataclass
from runbook.errors import Cancelled, ConfigError
from runbook.execution.fleet import Cancellation
from runbook.inventory.host_patterns import select
from runbook.inventory.listing_program import forget_lists
from runbook.records.private_folder import PrivateFolder, Unsafe, state_directory
from runbook.text.shortened import first_few
from runbook.text.suggestions import suggest
from runbook.values.inventory import Inventory
from runbook.values.playbook import Playbook

AGENT = "runbook mcp"
"""The program that a plan names as the agent's."""
REASON = "an agent asked for it through runbook mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions(FleetOptions):
    """The options of ``runbook mcp``."""

    plans: str = ""
    """The directory of saved plans; empty: the user's own."""


class Caller(Nobody):
    """The assistant behind one call: it is asked nothing, and its client can end the call."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()
        self._stops: list[Cancellation] = []
        self._ended = ""

    def can_stop(self, stop: Cancellation) -> None:
        """Let the client end the run through *stop*."""
        with self._lock:
            self._stops.append(stop)
            ended = self._ended
        if ended:
            stop.ask(ended, level=2)

    def end(self, why: str) -> None:
        """End the runs of this call now, on the hosts too."""
        with self._lock:
            self._ended, stops = why, tuple(self._stops)
        for stop in stops:
            stop.ask(why, level=2)

    def go_on(self) -> None:
        """Raise Cancelled if the call was ended."""
        if self._ended:
            raise Cancelled(self._ended)


class Served:
    """The files and hosts that the command line has fixed for every call of an assistant."""

    def __init__(self, options: McpOptions) -> None:
        """Read the inventory, so that a mistake in it is reported at the start.  Raises ConfigError."""
        paths = tuple(lasting_name(str(path)) for path in inventory_paths(options.choosing.inventory))
        choosing = replace(options.choosing, inventory=paths)
        if options.connecting.ask_become_pass:
            raise ConfigError("--ask-become-pass: stdin belongs to the client; give --become-password-file FILE")
        limit = choosing.hosts
        if limit is not None and not limit.strip():
            raise ConfigError("--hosts is empty: name hosts, or leave the option out")
        self._limit = limit
        self.options = replace(
            options, choosing=choosing, recording=replace(options.recording, no_record=False, reason=REASON)
        )
        times(options.connecting, options.limits)
        self.records = records_folder(options.recording.records or "")
        self.plans = _plans_folder(options.plans)
        self.allowed(self.inventory())

    def inventory(self) -> Inventory:
        """Read the inventory as it is now.  Raises ConfigError."""
        forget_lists()
        return read_inventory([Path(path) for path in self.options.choosing.inventory])

    def allowed(self, inventory: Inventory) -> frozenset[str]:
        """Return the names of the hosts that an assistant may name.  Raises ConfigError."""
        if self._limit is None:
            return frozenset(host.name for host in inventory.hosts)
        recorded = hosts_in_records(self.options.recording.records or "")
        chosen = select(inventory, self._limit, True, may_be_none=True, recorded=recorded)
        return frozenset(host.name for host in chosen.hosts)

    def is_limited(self) -> bool:
        """Whether the command line limits the hosts of the inventory."""
        return self._limit is not None

    def narrowed(self, order: Order, playbook: Playbook | None = None) -> Order:
        """Return *order* with connections that refuse writes.

        *playbook* is the playbook before its ``on`` were resolved.  Raises ConfigError if the order has a host that is
        not allowed.
        """
        allowed = self.allowed(order.inventory)
        self._refuse((host.name for host in order.selection.hosts), allowed)
        literal = {step.on for step in playbook.steps} if playbook else {CONTROLLER}
        places = {step.on for step in order.playbook.steps if step.on}
        self._refuse(places - ({CONTROLLER} & literal), allowed)
        return replace(order, reads_only=True)

    def _refuse(self, names: Iterable[str], allowed: frozenset[str]) -> None:
        if others := sorted(set(names) - allowed):
            raise ConfigError(f"{first_few(others)}: not among the hosts that this server was started for")


def playbook_name(name: str) -> str:
    """Return *name*, if it is the name of a playbook that needs no path.  Raises ConfigError."""
    files = {path.stem: path for path in playbook_files()}
    if name not in files:
        raise ConfigError(f"no playbook is called {name!r} ({suggest(name, files)}); a path is not accepted here")
    if find_playbook(name).resolve() != files[name].resolve():
        raise ConfigError(f"a file called {name} in the working directory hides the playbook {name}: remove it")
    return name


def _plans_folder(given: str) -> PrivateFolder:
    try:
        folder = PrivateFolder(Path(given).expanduser().absolute() if given else state_directory("agent-plans"))
        folder.make()
    except Unsafe as error:
        raise ConfigError(f"--plans: {error.strerror}") from error
    except OSError as error:
        raise ConfigError(f"--plans {given}: {error.strerror}") from error
    return folder
