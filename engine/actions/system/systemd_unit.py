"""Write a unit of systemd, have it read, and see that it runs and starts at boot.

The file goes to /etc/systemd/system in one stroke, and its difference is shown beforehand. A unit that runs is
restarted when its file has changed. A unit that the distribution brought is not overridden: write a drop-in for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.facts.files.writing import DesiredPath, PathState, ask_place, difference, make, read_place
from engine.facts.system.systemd_units import (
    Unit,
    ask_unit,
    came_anew,
    condition,
    full_name,
    is_up,
    objection_to_name,
    protected,
    read_unit,
    steer,
    wait,
)
from engine.protocols import Absent, Fails, Holds, Probe
from engine.values.command import Command, Completed
from engine.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from engine.values.types import Duration, Unknown

FOLDER = "/etc/systemd/system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Which unit, what stands in it, and how it shall be."""

    name: str = field(metadata={"about": "A service, or with its ending a .socket, .timer or .path."})
    content: str = field(default="", metadata={"about": "What is to stand in its file.", "exact": True})
    source: str = field(default="", metadata={"about": "A file beside the playbook, for the content as it is."})
    template: str = field(default="", metadata={"about": "A file beside the playbook, for the content once filled in."})
    text: str = field(default="", metadata={"about": "What stands in `source`; read from it.", "content_of": "source"})
    filled: str = field(
        default="",
        metadata={"about": "What stands in `template`; read from it.", "content_of": "template", "rendered": True},
    )
    started: bool = field(default=True, metadata={"about": "It shall run, and anew where its file was changed."})
    enabled: bool = field(default=True, metadata={"about": "It shall start at boot."})
    steady: Duration = field(
        default=Duration(1.0),
        metadata={"about": "How long a service must run before it is probed again.", "minimum": 0, "maximum": 300},
    )
    allow: tuple[str, ...] = field(
        default=(), metadata={"about": "Protected units that may be changed after all, by name."}
    )

    def __post_init__(self) -> None:
        if why := objection_to_name(self.name):
            raise ValueError(why)
        if len([it for it in (self.content, self.source, self.template) if it]) != 1:
            raise ValueError("give exactly one of `content`, `source` and `template`")
        if "[" not in self.wanted_text:
            raise ValueError("what is to stand in the unit has no section such as [Service]")
        if self.enabled and "[Install]" not in self.wanted_text:
            raise ValueError(
                "a unit without an [Install] section cannot start at boot: add it, or say `enabled: false`"
            )

    @property
    def wanted_text(self) -> str:
        """What is to stand in its file, with a newline at its end."""
        text = self.content or self.text or self.filled
        return text if text.endswith("\n") else f"{text}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The unit and its file."""

    unit: Unit | Unknown = field(
        metadata={"about": "What systemd says of it (id, active, sub, pid, enabled, result ...)."}
    )
    active: bool | Unknown = field(metadata={"about": "Whether it runs."})
    diff: str = field(default="", metadata={"about": "What is to be changed in its file, as `diff -u` shows it."})
    root: bool = field(default=False, metadata={"about": "Whether we may: the step runs as root."})
    place: PathState | None = field(default=None, repr=False, metadata={"private": True})


def probe(args: Args) -> Probe[State]:
    """Look at the file and at the unit together."""
    path = f"{FOLDER}/{full_name(args.name)}"
    asked, there = yield ask_unit(args.name), ask_place(path, follow=False)
    look = read_unit(args.name, asked)
    if look.unit is None:
        why = "systemd does not run this host (no /run/systemd/system)"
        return Absent(why=why, state=State(unit=Unknown(why=why), active=Unknown(why=why)))
    place = read_place(path, there)
    differs = place.text != args.wanted_text
    return State(
        unit=look.unit,
        active=is_up(look.unit),
        diff=difference(place, args.wanted_text) if differs else "",
        root=look.root,
        place=place,
    )


def decide(args: Args, state: State) -> Decision:
    """Write it, have it read, enable it, start it: what of that is needed."""
    unit, place = state.unit, state.place
    if isinstance(unit, Unknown) or place is None:
        return Blocked(why="systemd does not say how the unit stands")
    if why := _obstacle(args, unit, place):
        return Blocked(why=why)
    needs = tuple(_needs(args, state, unit))
    if not needs:
        return NoChange(why=f"{place.path} is as it shall be, and {condition(unit)}")
    if not state.root:
        return Blocked(why=f"to {', '.join(needs)} {unit.id} needs root: give the step `become: true`")
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
        return f"{unit.id} is masked: somebody has forbidden it to start (systemctl unmask {unit.id})"
    if place.kind not in ("absent", "file"):
        return f"{place.path} is a {place.kind}, and no file: nothing is put in its place"
    if unit.file and unit.file != place.path:
        return f"{unit.id} is defined by {unit.file}, which is not overridden: write a drop-in for it (systemctl edit)"
    if why := protected(unit, args.allow):
        return f"{unit.id} is left alone: {why} (`allow: [{unit.id}]` does it all the same)"
    return ""


def _needs(args: Args, state: State, unit: Unit) -> Iterator[str]:
    fresh = bool(state.diff)
    if fresh:
        yield "write"
    if fresh or unit.stale:
        yield "read anew"
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
    if "read anew" in needs:
        yield steer("daemon-reload")
    for verb in needs:
        if verb in ("enable", "start", "restart"):
            yield steer(verb, name)
    if {"start", "restart"} & set(needs) and args.steady and name.endswith(".service"):
        yield wait(args.steady)


def settled(args: Args, before: State, after: State) -> bool:
    """The file is as it shall be and was read, and the unit is enabled and runs anew."""
    return not _unsettled(args, before, after)


def explain(args: Args, before: State, after: State) -> str:
    """What a second look still sees."""
    return f"done, but {'; '.join(_unsettled(args, before, after))}"


def _unsettled(args: Args, before: State, after: State) -> list[str]:
    old, new = before.unit, after.unit
    if isinstance(old, Unknown) or isinstance(new, Unknown):
        return ["systemd does not say how it stands"]
    needs = set(_needs(args, after, new))
    ran = new.kind == "oneshot" and not new.remains and new.active == "inactive" and new.result in ("", "success")
    found = ["its file is not as it was written"] if "write" in needs else []
    found += ["systemd has not read it"] if new.stale else []
    found += (
        [f"{new.id} is {new.enabled or 'not enabled'}: has its text an [Install] section?"] if "enable" in needs else []
    )
    fell = came_anew(old, new) and isinstance(new.restarts, int) and new.restarts > 0
    if args.started and ((not is_up(new) and not ran) or fell):
        found.append(condition(new))
    elif args.started and "restart" in set(_needs(args, before, old)) and not ran and not came_anew(old, new):
        found.append(f"{new.id} still runs with its old file")
    return found


def refused(command: Command, completed: Completed) -> str:
    """The words of systemctl, or of the write."""
    lines = [" ".join(it.split()) for it in completed.stderr.split("\n") if it.strip()]
    said = "; ".join([it for it in lines if not it.startswith(("See ", "Warning: "))][:2])
    if completed.timed_out or not said:
        return ""
    look = f" (journalctl -u {command.argv[-1]} says why)" if command.argv[:1] == ("systemctl",) else ""
    return said + look


def holds(args: Args, state: State) -> Holds | Fails:
    """It is written, read, enabled and runs."""
    if isinstance(state.unit, Unknown):
        return Fails(why=state.unit.why)
    needs = tuple(_needs(args, state, state.unit))
    return (
        Fails(why=f"{condition(state.unit)}; to be done: {', '.join(needs)}")
        if needs
        else Holds(why=condition(state.unit))
    )


def by_hand(args: Args) -> tuple[str, ...]:
    """The lines that a person would paste."""
    name = full_name(args.name)
    verbs = (["enable"] if args.enabled else []) + (["restart"] if args.started else [])
    return (f"vi {FOLDER}/{name}", "systemctl daemon-reload", *(f"systemctl {it} {name}" for it in verbs))
