"""Compare the loaded version of a kernel module with the installed one, and reload it where nothing uses it.

After an update the old module stays loaded until it is unloaded or the host is rebooted. With `library` the version of
a library of programs is compared, too, by the name of its file: NVIDIA's `libnvidia-ml.so.1` works only with a driver
of its own version. As a change, the module and those above it are unloaded and loaded again, only if nothing uses any
of them; a module in use is never unloaded.
"""

from __future__ import annotations

from runbook.dataclass import dataclass
from runbook.library.kernel.facts.modules import (
    IN_USE,
    LIBRARY,
    MODULE_NAME,
    KernelModule,
    ask_module,
    load,
    read_module,
    unload,
)
from runbook.protocols import Fails, Holds, Probe
from runbook.values.command import Command, Completed
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Skip, Target
from runbook.values.types import Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    name: str
    """The module, as in lsmod: `nvidia`."""
    library: str = ""
    """A library of the same version, such as libnvidia-ml.so.1; empty: none."""

    def __post_init__(self) -> None:
        if not MODULE_NAME.fullmatch(self.name):
            raise ValueError(f"`name`: {self.name!r} is not a valid name of a kernel module")
        if self.library and not LIBRARY.fullmatch(self.library):
            raise ValueError(f"`library`: {self.library!r} is not a valid name of a library (libNAME.so.1)")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The versions, and what uses the module."""

    loaded: bool
    """Whether the module is loaded."""
    version: str | Unknown
    """The version that is loaded."""
    installed: str | Unknown
    """The version that would be loaded now (modinfo)."""
    library: str | Unknown
    """The version of `library`; unknown if it was not found."""
    stale: bool | Unknown
    """Whether another version is installed than is loaded: reloading it, or a reboot, helps."""
    library_differs: bool | Unknown
    """Whether `library` and the loaded module are of two versions: new programs fail."""
    users: int | Unknown
    """The number of references to the module, and to those above it, by open files and others."""
    modules: tuple[str, ...]
    """The module and all that use it, in the order in which they can be unloaded."""
    built_in: bool = False
    """Whether it is part of the kernel itself."""
    container: bool = False
    """Whether the host is a container."""
    root: bool = False
    """Whether the step runs as root."""


def probe(args: Args) -> Probe[State]:
    """Read sysfs, /proc/driver, modinfo and the linker's cache in one script."""
    return _state(args, read_module(args.name, (yield ask_module(args.name, args.library))))


def _state(args: Args, module: KernelModule) -> State:
    not_asked = Unknown(why="no `library` was asked for")
    return State(
        loaded=module.loaded,
        version=module.version,
        installed=module.installed,
        library=module.library if args.library else not_asked,
        stale=_differ(module.version, module.installed),
        library_differs=_differ(module.version, module.library) if args.library else not_asked,
        users=module.users,
        modules=module.modules,
        built_in=module.built_in,
        container=module.container,
        root=module.root,
    )


def _differ(one: str | Unknown, other: str | Unknown) -> bool | Unknown:
    if isinstance(one, Unknown):
        return one
    return other if isinstance(other, Unknown) else one != other


def decide(args: Args, state: State) -> Decision:
    """Reload it, if another version is installed and nothing uses it."""
    if not state.loaded:
        return Skip(why=f"the module {args.name} is not loaded")
    if isinstance(state.stale, Unknown):
        return Blocked(why=f"it is not known which version is installed: {state.stale.why}")
    if not state.stale:
        if state.library_differs is True:
            return Blocked(
                why=f"the installed module is {state.installed}, as the loaded one; {args.library} is {state.library}: "
                "reloading the module changes nothing"
            )
        return NoChange(why=f"{args.name} {state.version} is loaded and installed")
    if obstacles := _obstacles(args, state):
        return Blocked(why="; ".join(obstacles))
    return Change(
        summary=f"unload {', '.join(state.modules)} ({state.version}), and load {state.installed}",
        commands=(unload(state.modules),),
        finally_=(load(state.modules[::-1]),),
        targets=tuple(Target(kind="module", key=name, say=name) for name in state.modules),
        risk=Risk.RESETS_HARDWARE,
    )


def _obstacles(args: Args, state: State) -> list[str]:
    found = []
    if state.container:
        found.append("this is a container: the kernel and its modules are its host's")
    if state.built_in:
        found.append(f"{args.name} is part of the kernel itself: only a reboot loads another version")
    if isinstance(state.users, Unknown):
        found.append(state.users.why)
    elif state.users:
        found.append(
            f"{plural(state.users, 'reference')} to {', '.join(state.modules)} from open files, or other uses in the "
            "kernel: a module in use is never unloaded"
        )
    if isinstance(state.library, str) and isinstance(state.installed, str) and state.library != state.installed:
        found.append(f"{args.library} is {state.library}, the installed module {state.installed}: they differ, too")
    if not state.root:
        found.append("only root can load modules: give the step `become: true`")
    return found


def refused(command: Command, completed: Completed) -> str:
    """Return the words of the scripts for a module that is in use, or cannot be loaded."""
    said = " ".join(completed.stderr.split())
    if completed.exit_code == IN_USE:
        return said
    return f"{said} (exit code {completed.exit_code})" if said and completed.exit_code is not None else ""


def holds(args: Args, state: State) -> Holds | Fails:
    """The loaded version is the installed one, and the library's where one was asked for."""
    if not state.loaded:
        return Fails(why=f"the module {args.name} is not loaded")
    if state.stale is True:
        return Fails(why=f"{args.name} {state.version} is loaded, {state.installed} is installed")
    if state.library_differs is True:
        return Fails(why=f"{args.name} {state.version} is loaded, {args.library} is {state.library}")
    unknown = state.stale if isinstance(state.stale, Unknown) else None
    if args.library and isinstance(state.library_differs, Unknown):
        unknown = unknown or state.library_differs
    return Fails(why=unknown.why) if unknown else Holds(why=f"{args.name} {state.version} is loaded and installed")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    name = args.name.replace("-", "_")
    more = (f"ldconfig -p | grep {args.library}",) if args.library else ()
    return (
        f"cat /sys/module/{name}/version; modinfo -F version {name}",
        *more,
        f"lsmod | grep {name}      # the third column: what uses it",
    )
