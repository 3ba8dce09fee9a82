"""The commands that drain a node and that take our own drain back."""

from __future__ import annotations

from dataclasses import replace

from runbook.library.scheduler.facts.model import Node
from runbook.shell import PLACES, SAFE, script
from runbook.values.command import Command, write_script

_STEER = SAFE + PLACES + script(__package__, "steer")

SPARE = 120.0
"""Seconds that the scheduler may take besides what is waited for."""


def drain(node: Node, reason: str, who: str) -> Command:
    """Have *node* take no new jobs; *reason* whole, as it shall stand there."""
    return _steer("drain", node, reason, who, 0.0)


def evict(node: Node, within: float) -> Command:
    """Have Kubernetes move the pods of *node* elsewhere, within so many seconds."""
    return _steer("evict", node, "", "", within)


def resume(node: Node, only: str, within: float) -> Command:
    """Take our drain of *node* back if its reason begins with *only*; wait so many seconds until the node responds."""
    return _steer("resume", node, only, "", within)


def _steer(verb: str, node: Node, reason: str, who: str, within: float) -> Command:
    words = (verb, node.kind, node.name, reason, who, f"{within:.0f}")
    called = ("scheduler", *(word for word in words[:4] if word))
    return replace(write_script(_STEER, *words, called=called), timeout=SPARE, waits=within)
