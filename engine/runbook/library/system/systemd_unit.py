"""Write a systemd unit file, run daemon-reload, and ensure that the unit runs and starts at boot.

The file is written to /etc/systemd/system atomically, and the plan shows its diff. A running unit is restarted when its
file has changed. A unit of the distribution is not overridden: write a drop-in for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from hashlib import sha256

from runbook.dataclass import dataclass
from runbook.library.system.facts.systemd_units import (
    Unit,
    ask_unit,
    condition,
    full_name,
    has_completed,
    is_up,
    keeps_restarting,
    objection_to_name,
    protected,
    read_unit,
    steer,
    wait,
    was_restarted,
)
from runbook.onhost.writing import DesiredPath, PathState, ask_place, difference, make, read_place
from runbook.protocols import Absent, Fails, Holds, Probe
from runbook.values.command import Command, Completed
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import Duration, Json, Unknown
from runbook.values.undo import Ownership, Undo, UndoFile, UndoStep

FOLDER = "/etc/systemd/system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    name: str
    """A service, or with its ending a .socket, .timer or .path."""
    content: str = field(default="", metadata={"exact": True})
    """The content of the unit file."""
    source: str = ""
    """A file beside the playbook, whose text is the content, unchanged."""
    template: str = ""
    """A file beside the playbook, whose text is the content once its templates are filled in."""
    text: str = field(default="", metadata={"content_of": "source"})
    """The text of `source`; read from the file."""
    filled: str = field(default="", metadata={"content_of": "template", "rendered": True})
    """The text of `template`; read from the file."""
    started: bool = True
    """Whether the unit should run; it is restarted if its file was changed."""
    enabled: bool = True
    """Whether the unit should start at boot."""
    steady: Duration = field(default=Duration(1.0), metadata={"minimum": 0, "maximum": 300})
    """The pause after a start before the service is probed again."""
    allow: tuple[str, ...] = ()
    """Protected units, by name, that may be changed all the same."""

    def __post_init__(self) -> None:
        if why := objection_to_name(self.name):
            raise ValueError(why)
        if len([word for word in (self.content, self.source, self.template) if word]) != 1:
            raise ValueError("give exactly one of `content`, `source` and `template`")
        if "[" not in self.wanted_text:
            raise ValueError("the content of the unit has no section such as [Service]")
        if self.enabled and "[Install]" not in self.wanted_text:
            raise ValueError(
                "a unit without an [Install] section cannot start at boot: add it, or give `enabled: false`"
            )

    @property
    def wanted_text(self) -> str:
        """Return the text of its file, with a newline at its end."""
        text = self.content or self.text or self.filled
        return text if text.endswith("\n") else f"{text}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The unit and its file."""

    unit: Unit | Unknown
    """The unit as systemd reports it (id, active, sub, pid, enabled, result ...)."""
    active: bool | Unknown
    """Whether the unit runs."""
    diff: str = ""
    """The change of the unit file, as `diff -u` shows it."""
    root: bool = False
    """Whether the step runs as root."""
    place: PathState | None = field(default=None, repr=False, metadata={"private": True})


def probe(args: Args) -> Probe[State]:
    """Read the file and the unit together."""
    path = f"{FOLDER}/{full_name(args.name)}"
    asked, there = yield ask_unit(args.name), ask_place(path, follow=False)
    found = read_unit(args.name, asked)
    if found.unit is None:
        why = "systemd does not run this host (no /run/systemd/system)"
        return Absent(why=why, state=State(unit=Unknown(why=why), active=Unknown(why=why)))
    place = read_place(path, there)
    differs = place.text != args.wanted_text
    return State(
        unit=found.unit,
        active=is_up(found.unit),
        diff=difference(place, args.wanted_text) if differs else "",
        root=found.root,
        place=place,
    )


def decide(args: Args, state: State) -> Decision:
    """Write it, have it read, enable it, start it: what of that is needed."""
    unit, place = state.unit, state.place
    if isinstance(unit, Unknown) or place is None:
        return Blocked(why="systemd does not report the unit's state")
    if why := _obstacle(args, unit, place):
        return Blocked(why=why)
    needs = tuple(_needs(args, state, unit))
    if not needs:
        return NoChange(why=f"{place.path} is as wanted, and {condition(unit)}")
    if not state.root:
        return Blocked(why=f"{unit.id}: {', '.join(needs)} needs root: give the step `become: true`")
    if place.refusal and "write" in needs:
        return Blocked(why=place.refusal)
    starts = {"start", "restart"} & set(needs)
    return Change(
        summary=f"{', '.join(needs)}: {full_name(args.name)}",
        commands=tuple(_commands(args, place, needs)),
        targets=(
            Target(kind="file", key=place.key, say=place.path),
            Target(kind="service", key=full_name(args.name), say=full_name(args.name)),
        ),
        risk=Risk.RESTARTS_SERVICES if starts else Risk.EDITS_FILES,
        diff=state.diff,
    )


def _obstacle(args: Args, unit: Unit, place: PathState) -> str:
    if place.kind == "link" and place.leads_to == "/dev/null":
        return f"{unit.id} is masked and cannot start: `systemctl unmask {unit.id}` allows it"
    if place.kind not in ("absent", "file"):
        return f"{place.path} is a {place.kind}, not a file, and is not replaced"
    if unit.file and unit.file != place.path:
        return f"{unit.id} is defined by {unit.file}, which is not overridden: write a drop-in for it (systemctl edit)"
    if why := protected(unit, args.allow):
        return f"{unit.id} is left alone: {why} (`allow: [{unit.id}]` overrides this)"
    return ""


def _needs(args: Args, state: State, unit: Unit) -> Iterator[str]:
    fresh = bool(state.diff)
    if fresh:
        yield "write"
    if fresh or unit.stale:
        yield "daemon-reload"
    if args.enabled and unit.enabled not in ("enabled", "indirect", "alias"):
        yield "enable"
    if args.started and not is_up(unit):
        yield "start"
    elif args.started and (fresh or unit.stale):
        yield "restart"


def _commands(args: Args, place: PathState, needs: tuple[str, ...]) -> Iterator[Command]:
    name = full_name(args.name)
    if "write" in needs:
        yield make(place, DesiredPath(text=args.wanted_text, mode="644"))
    if "daemon-reload" in needs:
        yield steer("daemon-reload")
    for verb in needs:
        if verb in ("enable", "start", "restart"):
            yield steer(verb, name)
    if {"start", "restart"} & set(needs) and args.steady and name.endswith(".service"):
        yield wait(args.steady)


def settled(args: Args, before: State, after: State) -> bool:
    """The file is as it shall be and was read, and the unit is enabled and runs again."""
    return not _unsettled(args, before, after)


def explain(args: Args, before: State, after: State) -> str:
    """Describe what the second probe still finds."""
    return f"done, but {'; '.join(_unsettled(args, before, after))}"


def _unsettled(args: Args, before: State, after: State) -> list[str]:
    old, new = before.unit, after.unit
    if isinstance(old, Unknown) or isinstance(new, Unknown):
        return ["systemd does not report the unit's state"]
    needs = set(_needs(args, after, new))
    ran = has_completed(new)
    found = ["the unit file differs from what was written"] if "write" in needs else []
    found += ["systemd has not read the changed file"] if new.stale else []
    found += (
        [f"{new.id} is {new.enabled or 'not enabled'}: does its file have an [Install] section?"]
        if "enable" in needs
        else []
    )
    if args.started and ((not is_up(new) and not ran) or keeps_restarting(old, new)):
        found.append(condition(new))
    elif args.started and "restart" in set(_needs(args, before, old)) and not ran and not was_restarted(old, new):
        found.append(f"{new.id} was not restarted, and still runs with the old file")
    return found


def refused(command: Command, completed: Completed) -> str:
    """The words of systemctl, or of the write."""
    lines = [" ".join(line.split()) for line in completed.stderr.split("\n") if line.strip()]
    said = "; ".join([line for line in lines if not line.startswith(("See ", "Warning: "))][:2])
    if completed.timed_out or not said:
        return ""
    hint = f" (see: journalctl -u {command.argv[-1]})" if command.argv[:1] == ("systemctl",) else ""
    return said + hint


def undo(args: Args, state: State, change: Change) -> Undo:
    """The earlier unit file, with which the unit is then restarted; a unit that was not there stays."""
    place, unit = state.place, state.unit
    name = full_name(args.name)
    if place is None or isinstance(unit, Unknown) or place.kind != "file":
        lines = f"systemctl disable --now {name}; rm {FOLDER}/{name}; systemctl daemon-reload"
        return Undo(stays=(f"the unit {name} stays; by hand: {lines}",))
    was_enabled = unit.enabled in ("enabled", "indirect", "alias")
    stays = () if was_enabled or not args.enabled else (f"{name} stays enabled (it was {unit.enabled})",)
    if not state.diff:
        return Undo(stays=(*stays, f"{name} stays started"))
    was = Ownership(mode=place.mode, owner=place.owner, group=place.group)
    file = UndoFile(
        path=place.path,
        before=place.digest,
        after=sha256(args.wanted_text.encode()).hexdigest(),
        was=was,
        left=replace(was, mode="644"),
    )
    again: dict[str, Json] = {"name": name, "state": "restarted" if is_up(unit) else "stopped", "daemon_reload": True}
    say = f"{'restart' if is_up(unit) else 'stop'} {name} with the restored file"
    step = UndoStep(action="service", args={**again, "allow": list(args.allow)}, say=say, if_restored=True)
    return Undo(parts=(file, step), stays=stays)


def holds(args: Args, state: State) -> Holds | Fails:
    """It is written, read, enabled and runs."""
    if isinstance(state.unit, Unknown):
        return Fails(why=state.unit.why)
    needs = tuple(_needs(args, state, state.unit))
    return (
        Fails(why=f"{condition(state.unit)}; still needed: {', '.join(needs)}")
        if needs
        else Holds(why=condition(state.unit))
    )


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    name = full_name(args.name)
    verbs = (["enable"] if args.enabled else []) + (["restart"] if args.started else [])
    return (f"vi {FOLDER}/{name}", "systemctl daemon-reload", *(f"systemctl {verb} {name}" for verb in verbs))
