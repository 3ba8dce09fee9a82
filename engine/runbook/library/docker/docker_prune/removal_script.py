"""The script that removes Docker's things one by one, each only if it is still what was seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from runbook.library.docker.facts.engine import PRELUDE
from runbook.shell import script
from runbook.values.command import Command, write_script

PATIENCE = 1800.0
"""Seconds for one command: large images take minutes to go."""

AT_ONCE = 100
"""Things in one command, so that no line grows without bound."""


class Removal(NamedTuple):
    """One thing to remove: a container, image, build-cache record or volume, and what was seen of it."""

    kind: str
    id: str
    seen: str


SEEN = {
    "container": "{{.State.Status}} {{.State.StartedAt}} {{.State.FinishedAt}}",
    "image": "{{range .RepoTags}}{{.}} {{end}}|{{range .RepoDigests}} {{.}}{{end}}",
    "volume": "{{.CreatedAt}}",
}
"""The state that is asked again right before the removal, and must be unchanged."""

_REMOVE = PRELUDE + script(__package__, "prune_remove")


def remove(things: Iterable[Removal], root: str, unused: float) -> tuple[Command, ...]:
    """Remove exactly *things*, in this order; *root* is where Docker keeps its files, for df.

    Records of the build cache go only if they are unused for *unused* seconds at that moment.
    """
    pending = list(things)
    groups = (pending[at : at + AT_ONCE] for at in range(0, len(pending), AT_ONCE))
    return tuple(
        replace(
            write_script(
                *(_REMOVE, root, f"{unused:.0f}", *SEEN.values(), *(word for removal in group for word in removal)),
                called=("docker-remove", *(f"{removal[0]}:{removal[1][:19]}" for removal in group)),
            ),
            timeout=PATIENCE,
        )
        for group in groups
    )
