"""Faults of network cards that kernel messages report: links that are down, hanging firmware, power and heat."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from runbook.dataclass import dataclass
from runbook.library.kernel.facts.events import when
from runbook.library.kernel.facts.patterns import KINDS
from runbook.library.system.facts.kernel_messages import Message
from runbook.values.types import Unknown

_BUS = re.compile(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b", re.IGNORECASE)

FLAPS = 4
"""A link flaps if it came up this often."""
TOGETHER = 600.0
"""The seconds within which it came up."""
BOOTS = 300.0
"""The seconds after the boot in which links are set up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFault:
    """A fault of a network card, or a link that went down and has not come up again."""

    at: str | Unknown
    """When the kernel wrote the message: ISO 8601, UTC; unknown if the log has no time."""
    seconds: float | Unknown
    """When the kernel wrote the message, in seconds since 1970."""
    kind: Literal["link_down", "flaps", "card"]
    """link_down: a link went down, and no later message says that it is up; flaps: a link came up again and again;
    card: another fault of a card.
    """
    device: str
    """The card's PCI address; of a message without one, the driver and the interface."""
    text: str
    """The message of the kernel, at most 1000 characters."""


def network_faults(messages: Iterable[Message]) -> tuple[NetworkFault, ...]:
    """Faults of network cards in the order of the log.  A link counts where nothing later says that it is up."""
    found: dict[tuple[str, int], NetworkFault] = {}
    ups: dict[str, list[float]] = {}
    for number, message in enumerate(messages):
        text = message.text.strip()
        if KINDS["network"].find(message.text):
            found["", number] = NetworkFault(**when(message), kind="card", device=_device(text, text), text=text)
        elif up := KINDS["link_up"].find(message.text):
            device = _device(text, up[1])
            found.pop((device, -1), None)
            times = _noted(ups.setdefault(device, []), message)
            if len(times) >= FLAPS:
                words = f"{text} ({len(times)} times within {times[-1] - times[0]:.0f} s)"
                found[device, -2] = NetworkFault(**when(message), kind="flaps", device=device, text=words)
        elif down := KINDS["link_down"].find(message.text):
            device = _device(text, down[1])
            found.pop((device, -1), None)
            found[device, -1] = NetworkFault(**when(message), kind="link_down", device=device, text=text)
    return tuple(found.values())


def _noted(times: list[float], message: Message) -> list[float]:
    """Add the time of *message* to the *times* of one link; return those that are not long ago.

    The links of a host that boots, or whose time is unknown, come up without a fault.
    """
    now = message.since_boot if message.at is None else message.at
    if now is not None and (message.since_boot is None or message.since_boot > BOOTS):
        times[:] = [*(before for before in times if now - before <= TOGETHER), now]
    return times


def _device(text: str, otherwise: str) -> str:
    named = _BUS.search(text)
    return named[0].lower() if named else otherwise.strip(" :")[:80]
