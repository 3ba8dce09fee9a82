"""The section ``limits`` of a playbook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runbook.language import lenient_read
from runbook.language.sections.placed_values import PlacedValues
from runbook.values.plan import Risk
from runbook.values.playbook import Attempts, Breaker, ConcurrencyLimit, HostOrder, Limits, Share
from runbook.values.units import time_span


def limits_of(tree: Mapping[str, Any], values: PlacedValues) -> Limits:
    """The limits that *tree*, the mapping under ``limits``, asks for."""
    batches = tree.get("batches")
    listed = list(enumerate(batches if isinstance(batches, list) else ()))
    made = [values.share(it, ("limits", "batches", number)) for number, it in listed]
    if "pause_between" in tree and "batches" not in tree:
        values.wrong(("limits", "pause_between"), "pause_between: there are no batches", "batches: [1, 100%]")
    return Limits(
        deadline=values.seconds(tree, "deadline", ("limits",), read=time_span),
        host_deadline=values.seconds(tree, "host_deadline", ("limits",), read=time_span),
        batches=tuple(share for share in made if share),
        pause_between=values.seconds(tree, "pause_between", ("limits",)),
        stop_after=_limit(tree, values, "stop_after"),
        max_unavailable=_limit(tree, values, "max_unavailable"),
        max_concurrent_per=tuple(
            ConcurrencyLimit(
                variable=variable,
                most=int(most),
                where=values.where(("limits", "max_concurrent_per", variable)),
            )
            for variable, most in lenient_read.mapping(tree.get("max_concurrent_per")).items()
            if isinstance(most, int)
        ),
        order=HostOrder(tree["order"]) if tree.get("order") in list(HostOrder) else HostOrder.INVENTORY,
        confirm_from=tree["confirm_from"] if tree.get("confirm_from") in list(Risk) else "",
        approvals=tree["approvals"] if type(tree.get("approvals")) is int else 0,
        **_over_runs(tree, values),
    )


def _over_runs(tree: Mapping[str, Any], values: PlacedValues) -> dict[str, Any]:
    """The limits over several runs."""
    attempts, breaker = (lenient_read.mapping(tree.get(key)) for key in ("attempts", "breaker"))
    often = values.seconds(attempts, "within", ("limits", "attempts"), read=time_span)
    many = values.seconds(breaker, "within", ("limits", "breaker"), read=time_span)
    hosts = values.share(breaker["hosts"], ("limits", "breaker", "hosts")) if "hosts" in breaker else None
    per_host = attempts.get("per_host")
    return {
        "attempts": Attempts(per_host=per_host, within=often) if type(per_host) is int else None,
        "cooldown": values.seconds(tree, "cooldown", ("limits",), read=time_span),
        "breaker": Breaker(hosts=hosts, within=many) if hosts else None,
    }


def _limit(tree: Mapping[str, Any], values: PlacedValues, key: str) -> Share | None:
    return values.share(tree[key], ("limits", key)) if key in tree else None
