"""Read the limits of a playbook, and describe them in sentences."""

from __future__ import annotations

from runbook.language.lenient_read import mapping
from runbook.language.sections.placed_values import Entry
from runbook.values.playbook import Attempts, Breaker, ConcurrencyLimit, Limits, Share
from runbook.values.types import plural, seconds
from runbook.values.units import time_span

# ---- from the tree to values -----------------------------------------------------------------------------------------


def share(entry: Entry, key: str) -> Share | None:
    """Return the share of the hosts in *key*."""
    return entry.values.share(entry.tree[key], (*entry.path, key)) if key in entry.tree else None


def batches(entry: Entry, key: str) -> tuple[Share, ...]:
    """Return the shares of the hosts in *key*."""
    listed = entry.tree.get(key)
    numbered = enumerate(listed if isinstance(listed, list) else ())
    made = [entry.values.share(each, (*entry.path, key, number)) for number, each in numbered]
    return tuple(each for each in made if each)


def pause_between(entry: Entry, key: str) -> float:
    """Return the seconds between two batches.  It is a mistake if there are no batches."""
    if key in entry.tree and "batches" not in entry.tree:
        entry.values.wrong((*entry.path, key), "pause_between: there are no batches", "batches: [1, 100%]")
    return entry.values.seconds(entry.tree, key, entry.path)


def max_concurrent_per(entry: Entry, key: str) -> tuple[ConcurrencyLimit, ...]:
    """Return the limits in *key*: for each variable, the maximum number of hosts with the same value."""
    return tuple(
        ConcurrencyLimit(variable=variable, most=int(most), where=entry.values.where((*entry.path, key, variable)))
        for variable, most in mapping(entry.tree.get(key)).items()
        if isinstance(most, int)
    )


def attempts(entry: Entry, key: str) -> Attempts | None:
    """Return the limit on the number of changes of one host within a time."""
    tree = mapping(entry.tree.get(key))
    within = entry.values.seconds(tree, "within", (*entry.path, key), read=time_span)
    per_host = tree.get("per_host")
    return Attempts(per_host=per_host, within=within) if type(per_host) is int else None


def breaker(entry: Entry, key: str) -> Breaker | None:
    """Return the limit on the number of hosts that are changed within a time."""
    tree = mapping(entry.tree.get(key))
    within = entry.values.seconds(tree, "within", (*entry.path, key), read=time_span)
    hosts = entry.values.share(tree["hosts"], (*entry.path, key, "hosts")) if "hosts" in tree else None
    return Breaker(hosts=hosts, within=within) if hosts else None


# ---- in sentences ----------------------------------------------------------------------------------------------------

UNWELL = "failed, unresolved, unknown, unreachable or cancelled"


def shown_batches(given: Limits) -> str:
    """Describe the batches of hosts, and the pauses between the batches."""
    if not given.batches:
        return ""
    *first, last = map(str, given.batches)
    shares = "; then ".join([*first, f"{last} at a time" if last != "100%" else "all the others"])
    words = [f"Hosts are changed in batches, each started when the one before has ended: {shares}."]
    if given.pause_between:
        words.append(f"Between two batches it waits {seconds(given.pause_between)}.")
    return " ".join([*words, "A batch in which every host is unwell is the last one."])


def shown_stop(given: Limits) -> str:
    """Describe after how many unwell hosts the run ends."""
    return f"Once {_hosts(given.stop_after)} {UNWELL}, no further host is started." if given.stop_after else ""


def shown_unavailable(given: Limits) -> str:
    """Describe how many hosts may be unavailable at the same time."""
    most = given.max_unavailable
    return f"Never more than {_hosts(most)} being changed, or {UNWELL}." if most else ""


def shown_attempts(given: Limits) -> str:
    """Describe how often one host may be changed."""
    if not (most := given.attempts):
        return ""
    return f"At most {plural(most.per_host, 'run')} may change the same host within {seconds(most.within)}."


def shown_breaker(given: Limits) -> str:
    """Describe how many hosts all runs together may change."""
    if not (breaker := given.breaker):
        return ""
    few = f"{breaker.hosts} of the hosts" if breaker.hosts.percent else plural(int(breaker.hosts.number), "host")
    return f"All runs together change at most {few} within {seconds(breaker.within)}."


def _hosts(share: Share) -> str:
    """Return the share as the beginning of a sentence: ``10% of the hosts are``, ``3 hosts are``, ``1 host is``."""
    them = "of the hosts are" if share.percent else "hosts are" if share.number > 1 else "host is"
    return f"{share} {them}"
