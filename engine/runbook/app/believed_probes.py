"""The probes of a playbook that run an interpreter with a program of the author's own: what ``check`` cannot judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runbook.facts.commands.reading_programs import interpreter_in, is_to_be_confined
from runbook.lang.lenient_read import unraw
from runbook.values.playbook import Playbook, Step
from runbook.values.types import Json


def believed_note(book: Playbook) -> str:
    """One line about such probes of *book*, not of what it includes; empty: there are none."""
    found = [(step.id, *probe) for step in book.steps if not step.part and (probe := _own_program_of(step))]
    kept = ", ".join(f"{id} ({name})" for id, name, confined in found if confined)
    asking = ", ".join(f"{id} ({name})" for id, name, confined in found if not confined)
    words = [
        f"{kept}, unless root probes a host that has mount namespaces" if kept else "",
        f"{asking}, for it asks how file systems are mounted" if asking else "",
    ]
    said = "; ".join(filter(None, words))
    return f"note: an author's own program is believed, not enforced, to only read: {said}" if said else ""


def _own_program_of(step: Step) -> tuple[str, bool] | None:
    """The interpreter that the probe of *step* runs, and whether it is kept from writing where that can be had."""
    args: Any = unraw(step.args)
    if step.action not in ("command", "script") or not isinstance(args, Mapping):
        return None
    probe = args.get("check") if "do" in args else args
    if not isinstance(probe, Mapping):
        return None
    text = probe.get("text" if step.action == "script" else "script")
    argv, script = _texts(probe.get("argv")), text if isinstance(text, str) else ""
    name = interpreter_in(argv, script)
    return (name, is_to_be_confined(argv, script)) if name else None


def _texts(argv: Json) -> tuple[str, ...]:
    return tuple(map(str, argv)) if isinstance(argv, list) else ()
