"""Install missing packages with the host's own package manager.

apt-get, dnf, yum and apk are supported. Installed packages are not upgraded, nothing is removed, and recommended
packages are not installed. On a host where the installation may fail (no network), give the step
`ignore_failure: true`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal

from runbook.dataclass import dataclass
from runbook.library.system.facts.packages import (
    MANAGERS,
    PACKAGE_NAME,
    Packages,
    ask_package_manager,
    ask_packages,
    install,
    read_package_manager,
    read_packages,
    shortened,
)
from runbook.protocols import Fails, Holds, Probe
from runbook.values.command import Command, Completed
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    names: tuple[str, ...] = ()
    """Packages, by their names in the package manager."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Program to package: the package is installed only if the program is not on PATH."""
    called: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Package names that differ, by manager (apt, dnf, yum, apk): {dnf: {procps: procps-ng}}."""
    state: Literal["present"] = "present"
    """Packages are never removed."""
    refresh: Literal["if_needed", "always", "never"] = "if_needed"
    """Whether apt-get fetches its lists first; needed if they do not offer a package."""

    def __post_init__(self) -> None:
        if not self.names and not self.programs:
            raise ValueError("give `names` of packages, or `programs` with their packages")
        for manager in self.called:
            if manager not in MANAGERS:
                raise ValueError(f"called: {manager!r} is none of: {', '.join(MANAGERS)}")
        renamed = [name for names in self.called.values() for name in names.values()]
        for name in (*self.names, *self.programs.values(), *renamed):
            if not PACKAGE_NAME.fullmatch(name):
                raise ValueError(
                    f"{name!r} is not a valid name of a package: letters, digits and + . _ - only, without a version; "
                    "it must begin with a letter or digit, and must not end in -"
                )
        for program in self.programs:
            if not program or program.startswith("-"):
                raise ValueError(f"programs: {program!r} is not a valid name of a program")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The packages that are there."""

    manager: str
    """apt, dnf, yum or apk; empty: the host has none of them."""
    installed: Mapping[str, str] = field(default_factory=dict)
    """Version of each installed package, by name; apk reports none."""
    missing: tuple[str, ...] = ()
    """Wanted packages that are not installed."""
    unlisted: tuple[str, ...] = ()
    """Missing packages that apt's present lists do not offer."""
    lacking: tuple[str, ...] = field(default=(), metadata={"named_by": ("programs",)})
    """Programs that are not on PATH although their package is installed."""
    root: bool = False
    """Whether the step runs as root, and so may install."""


def probe(args: Args) -> Probe[State]:
    """Ask for the manager and the programs, then for the packages that are still wanted."""
    ground = read_package_manager((yield ask_package_manager(args.programs)))
    homes = {word: args.programs[word] for word in ground.lacking if word in args.programs}
    if not ground.manager:
        return State(manager="", missing=tuple(dict.fromkeys((*args.names, *homes.values()))), root=ground.root)
    there = args.called.get(ground.manager, {})
    homes = {program: there.get(home, home) for program, home in homes.items()}
    wanted = tuple(dict.fromkeys((*(there.get(name, name) for name in args.names), *homes.values())))
    packages = Packages(installed={}, missing=(), unlisted=())
    if wanted:
        packages = read_packages((yield ask_packages(ground.manager, wanted)))
    return State(
        manager=ground.manager,
        installed=packages.installed,
        missing=packages.missing,
        unlisted=packages.unlisted,
        lacking=tuple(program for program, home in homes.items() if home in packages.installed),
        root=ground.root,
    )


def decide(args: Args, state: State) -> Decision:
    """Install what is missing, if we may and can."""
    if not state.missing and state.lacking:
        return Blocked(why=_lacking(state))
    if not state.missing:
        there = ", ".join(f"{name} {version}".strip() for name, version in state.installed.items())
        return NoChange(why=f"installed: {there}" if there else f"on PATH: {', '.join(args.programs)}")
    names = ", ".join(state.missing)
    if not state.manager:
        return Blocked(
            why=f"{names}: cannot be installed, because this host has none of {', '.join(MANAGERS.values())}"
        )
    if not state.root:
        return Blocked(why=f"{names}: installing needs root: give the step `become: true`")
    if state.unlisted and args.refresh == "never":
        return Blocked(
            why=f"apt's lists do not offer {', '.join(state.unlisted)}, and `refresh: never` forbids fetching them"
        )
    refresh = state.manager == "apt" and (args.refresh == "always" or bool(state.unlisted))
    first = ", after fetching its package lists" if refresh else ""
    return Change(
        summary=f"install {names} with {MANAGERS[state.manager]}{first}",
        commands=(install(state.manager, state.missing, refresh=refresh),),
        targets=tuple(Target(kind="package", key=f"{state.manager}:{word}", say=word) for word in state.missing),
        risk=Risk.EDITS_FILES,
    )


def _lacking(state: State) -> str:
    return f"the package is installed, but there is no program {', '.join(state.lacking)} on PATH"


def explain(args: Args, before: State, after: State) -> str:
    """Name the packages that are still missing."""
    if not after.missing:
        return f"done, but {_lacking(after)}"
    return f"done, but {plural(len(after.missing), 'package')} not installed: {', '.join(after.missing)}"


def without(state: State, keys: frozenset[str]) -> State:
    """*state* without the packages of *keys*."""
    left = tuple(word for word in state.missing if f"{state.manager}:{word}" not in keys)
    return replace(state, missing=left, unlisted=tuple(word for word in state.unlisted if word in left))


def refused(command: Command, completed: Completed) -> str:
    """The manager's own words, shortened."""
    if completed.timed_out or completed.exit_code is None:
        return ""
    words = shortened(completed)
    old = "404" in words or "Unable to fetch some archives" in words
    hint = " (the package lists are old: give the step `refresh: always`)" if old and not command.script else ""
    return f"not installed (exit code {completed.exit_code}): {words}{hint}" if words else ""


def holds(args: Args, state: State) -> Holds | Fails:
    """Everything that is wanted is there."""
    if state.missing:
        return Fails(why=f"not installed: {', '.join(state.missing)}")
    return Fails(why=_lacking(state)) if state.lacking else Holds(why="installed, or on PATH")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    return (f"apt-get update; apt-get install -y {' '.join(dict.fromkeys((*args.names, *args.programs.values())))}",)
