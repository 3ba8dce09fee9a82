"""Give a run the records of earlier runs: for expressions (``history``), and for the limits over several runs."""

from __future__ import annotations

from collections.abc import Callable

from runbook.commands.order import Order
from runbook.errors import ConfigError
from runbook.execution.fleet import ChangeLimits
from runbook.language.history_calls import probes_remembered
from runbook.protocols import RecordedPast
from runbook.values.inventory import Inventory
from runbook.values.playbook import Playbook
from runbook.values.recorded_change import RecordedAnswer, RecordedChange
from runbook.values.types import Unknown


def past_of(playbook: Playbook, inventory: Inventory, records: str | None) -> Callable[[str, str], RecordedPast] | None:
    """Return a function that gives the earlier runs of *playbook*; None if *records* is None.

    The function takes the id of a run, and the id of the run that it continues.
    """
    if records is None:
        return None
    from runbook.commands.history.recording import records_folder  # only where records are read
    from runbook.records.past_runs import PastRuns

    def past(run: str, resumes: str) -> RecordedPast:
        try:
            folder = records_folder(records)
        except ConfigError as error:
            return _UnknownPast(str(error))
        return PastRuns(
            folder,
            playbook=playbook.name,
            inventory=inventory.sources,
            own=run,
            resumes=resumes,
            probes=probes_remembered(playbook),
        )

    return past


def change_limits_of(order: Order, past: RecordedPast | None) -> ChangeLimits | None:
    """Return the limits on changes that count earlier runs; None if the playbook of *order* has no such limits."""
    book = order.playbook
    cooldowns = {name: each.playbook.limits.cooldown for name, each in order.assignments.items()}
    if not (book.limits.remember or any(cooldowns.values())) or not book.remediate:
        return None
    known = past or _UnknownPast("this command reads no records")
    return ChangeLimits(book.limits, known, book.name, pool_of(order), cooldowns)


def pool_of(order: Order) -> int:
    """Return the number of hosts of which the limit ``breaker`` is a percentage: all hosts of the inventory for the
    playbook.

    They are not only the hosts of this run, so that many runs on one host each are counted together.
    """
    from runbook.inventory.host_patterns import select  # only where a plan is shown

    try:
        return len(select(order.inventory, order.playbook.hosts or "all", include_not_ready=True).hosts)
    except ConfigError:
        return len(order.selection.hosts)


class _UnknownPast:
    """A past about which nothing is known, because the records cannot be read."""

    def __init__(self, why: str) -> None:
        self._unknown = Unknown(why=why)

    def changes(self, host: str, within: float) -> tuple[RecordedChange, ...] | Unknown:
        """Return Unknown, with the reason."""
        return self._unknown

    def last_change(self, host: str) -> RecordedChange | None | Unknown:
        """Return Unknown, with the reason."""
        return self._unknown

    def changed_hosts(self, within: float) -> frozenset[str] | Unknown:
        """Return Unknown, with the reason."""
        return self._unknown

    def attempt(self, host: str) -> str:
        """Return an empty text: no interrupted run is known."""
        return ""

    def answer(self, host: str, probe: str) -> RecordedAnswer | None | Unknown:
        """Return Unknown, with the reason."""
        return self._unknown
