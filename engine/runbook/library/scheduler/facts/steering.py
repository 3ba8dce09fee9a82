"""The commands that drain a node, and that take a drain by runbook back."""

from __future__ import annotations

from dataclasses import replace

from runbook.library.scheduler.facts.model import Node
from runbook.shell import PLACES, SAFE, script
from runbook.values.command import Command, write_script

_STEER = SAFE + PLACES + script(__package__, "steer")

SPARE = 120.0
"""The seconds that the scheduler may take in addition to the time of waiting."""


def drain(node: Node, reason: str, who: str) -> Command:
    """Return the command that lets *node* accept no new jobs; *reason* is stored unchanged."""
    return _steer("drain", node, reason, who, 0.0)


def evict(node: Node, within: float) -> Command:
    """Return the command with which Kubernetes moves the pods of *node* elsewhere; *within*: the time limit in
    seconds.
    """
    return _steer("evict", node, "", "", within)


def resume(node: Node, only: str, within: float) -> Command:
    """Return the command that takes runbook's drain of *node* back if its reason begins with *only*; it waits up to
    *within* seconds until the node responds.
    """
    return _steer("resume", node, only, "", within)


def _steer(verb: str, node: Node, reason: str, who: str, within: float) -> Command:
    words = (verb, node.kind, node.name, reason, who, f"{within:.0f}")
    called = ("scheduler", *(word for word in words[:4] if word))
    return replace(write_script(_STEER, *words, called=called), timeout=SPARE, waits=within)
