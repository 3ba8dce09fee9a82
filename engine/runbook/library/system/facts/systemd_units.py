"""Units of systemd: their state, which of them are protected, and the commands that control them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import field
from difflib import get_close_matches
from fnmatch import fnmatchcase

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.shell import script
from runbook.values.command import Command, Completed, Effect, read_script
from runbook.values.types import Unknown

BOOTED = "/run/systemd/system"
"""There exactly where systemd runs the host (sd_booted(3))."""

UNIT_NAME = re.compile(r"[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]*")
TYPES = ("service", "socket", "timer", "path")
"""The types of units that are steered; starting a target could take the host down."""

STEERED: dict[str, str] = {
    "it is a remote access service": (
        "ssh ssh@* sshd sshd@* dropbear tailscaled cloudflared wg-quick@* openvpn* teleport amazon-ssm-agent"
    ),
    "the network depends on it": (
        "NetworkManager NetworkManager-* networking network wpa_supplicant* dhcpcd* dhclient* ifup@* connman netplan-*"
    ),
    "the system depends on it": "dbus dbus-broker user@* init emergency rescue initrd-* polkit",
    "it is part of systemd": "systemd-*",
}
"""Units, without their type, that are stopped, restarted or disabled only if a playbook names them; by the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The state of one unit, by systemd."""

    id: str
    """The full name of the unit, with its type."""
    load: str
    """Whether systemd knows it (LoadState): loaded, not-found, masked, bad-setting, error ..."""
    active: str
    """Its ActiveState: active, reloading, inactive, failed, activating, deactivating ..."""
    sub: str = ""
    """The same in finer words (SubState): running, exited, dead, auto-restart, listening ..."""
    names: tuple[str, ...] = ()
    """All names of the unit, its aliases among them."""
    kind: str = ""
    """``Type`` of a service: simple, oneshot, notify ..."""
    remains: bool = False
    """A oneshot that counts as active when it is over."""
    pid: int | Unknown = 0
    """The pid of its main process (MainPID); 0: it has none now."""
    enabled: str = ""
    """Whether it starts by itself (UnitFileState): enabled, disabled, static, masked ...; empty: it has no file."""
    invocation: str = ""
    """The id of its present or last run (InvocationID), which every start makes new; empty: none."""
    since: int | Unknown = 0
    """When it last became active, in microseconds since boot."""
    moved: int | Unknown = 0
    """When its state last changed, likewise."""
    restarts: int | Unknown = 0
    """The number of restarts by systemd itself since somebody started it."""
    result: str = ""
    """The Result of its last run: success, exit-code, signal, timeout, oom-kill, start-limit-hit ..."""
    exit_status: int | Unknown = 0
    """The exit code of its main process, or the signal that ended it (ExecMainStatus); 0 while it runs."""
    can_reload: bool = False
    """Whether it can read its configuration again without a restart (CanReload)."""
    stale: bool = False
    """Its file has changed, and systemd has not read it since."""
    file: str = ""
    """The path of its unit file (FragmentPath); empty: it has none."""
    triggered_by: tuple[str, ...] = ()
    """The sockets, timers and paths that start it (TriggeredBy)."""
    similar: tuple[str, ...] = ()
    """Units that are there, where this one is not."""


def full_name(name: str) -> str:
    """*name* as systemctl takes it: a service unless it says otherwise."""
    return name if name.rpartition(".")[2] in TYPES and "." in name else f"{name}.service"


def objection_to_name(name: str) -> str:
    """Return the reason why no unit of that name is changed; empty: it may be."""
    if not UNIT_NAME.fullmatch(name):
        return f"{name!r} is not a valid unit name: write one name, without globs and paths"
    kind = name.rpartition(".")[2]
    if "." in name and kind in ("target", "mount", "automount", "swap", "slice", "scope", "device"):
        return f"{name!r} is a {kind}; only a {', '.join(TYPES[:-1])} or {TYPES[-1]} can be managed"
    return ""


def protected(unit: Unit, allow: Collection[str]) -> str:
    """Return the reason why it is not stopped; empty: it may be, or *allow* names it."""
    names = tuple(dict.fromkeys((unit.id, *unit.names)))
    stems = tuple(name.rpartition(".")[0] for name in names)
    if {*names, *stems} & set(allow):
        return ""
    for why, patterns in STEERED.items():
        if any(fnmatchcase(stem, word) for stem in stems for word in patterns.split()):
            return why
    return ""


_SHOWN = (
    "Id LoadState ActiveState SubState Names Type RemainAfterExit MainPID UnitFileState InvocationID "
    "ActiveEnterTimestampMonotonic StateChangeTimestampMonotonic NRestarts Result ExecMainStatus CanReload "
    "NeedDaemonReload FragmentPath TriggeredBy"
).replace(" ", ",")


def ask_unit(name: str) -> Command:
    """Ask systemd for *name*, and for the units there are where it knows of none."""
    return read_script(_ASK, BOOTED, full_name(name), _SHOWN)


_ASK = script(__package__, "systemd_units_probe")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitReading:
    """The answer to ``ask_unit``."""

    unit: Unit | None
    """None: systemd does not run this host."""
    root: bool = field(default=False)


def read_unit(name: str, done: Completed) -> UnitReading:
    """The answer to ``ask_unit``.  Raises ProbeError where systemd does not answer."""
    if done.timed_out:
        raise ProbeError("systemd did not answer in time")
    if done.exit_code != 0:
        raise ProbeError(" ".join(done.stderr.split()) or f"systemctl gave no answer (exit code {done.exit_code})")
    if done.stdout.strip() == "absent":
        return UnitReading(unit=None)
    lines = [line.partition("=")[::2] for line in done.stdout.split("\n") if "=" in line]
    reported = {key: value for key, value in lines if key != "there"}
    if "LoadState" not in reported or "ActiveState" not in reported:
        raise ProbeError(f"systemctl reports nothing about {full_name(name)}: {' '.join(done.stdout.split())[:200]}")
    there = [value for key, value in lines if key == "there"]
    return UnitReading(unit=_unit(name, reported, there), root=reported.get("user") == "0")


def _unit(name: str, reported: Mapping[str, str], there: list[str]) -> Unit:
    return Unit(
        id=reported.get("Id") or full_name(name),
        load=reported["LoadState"],
        active=reported["ActiveState"],
        sub=reported.get("SubState", ""),
        names=tuple(reported.get("Names", "").split()),
        kind=reported.get("Type", ""),
        remains=reported.get("RemainAfterExit") == "yes",
        pid=_number(reported, "MainPID"),
        enabled=reported.get("UnitFileState", ""),
        invocation=reported.get("InvocationID", ""),
        since=_number(reported, "ActiveEnterTimestampMonotonic"),
        moved=_number(reported, "StateChangeTimestampMonotonic"),
        restarts=_number(reported, "NRestarts"),
        result=reported.get("Result", ""),
        exit_status=_number(reported, "ExecMainStatus"),
        can_reload=reported.get("CanReload") == "yes",
        stale=reported.get("NeedDaemonReload") == "yes",
        file=reported.get("FragmentPath", ""),
        triggered_by=tuple(reported.get("TriggeredBy", "").split()),
        similar=tuple(get_close_matches(full_name(name), there, n=3)),
    )


def _number(reported: Mapping[str, str], key: str) -> int | Unknown:
    value = reported.get(key, "")
    return int(value) if value.isdigit() else Unknown(why=f"this systemd does not report {key}")


def steer(verb: str, *names: str) -> Command:
    """``systemctl VERB UNIT``, which returns when the job is done."""
    after = ("--", *names) if names else ()
    argv = ("systemctl", "--no-ask-password", "--no-pager", verb, *after)
    return Command(argv=argv, effect=Effect.WRITE, env=(("LC_ALL", "C"),))


def wait(seconds: float) -> Command:
    """Give a service time to fall over before it is probed again."""
    return Command(argv=("sleep", f"{seconds:g}"), effect=Effect.WRITE)


def is_up(unit: Unit) -> bool:
    """Whether it runs, or is a oneshot that has done its work."""
    return unit.active in ("active", "reloading", "refreshing")


def has_completed(unit: Unit) -> bool:
    """Whether it is a oneshot unit that did its work and is down since, as it should be."""
    return unit.kind == "oneshot" and not unit.remains and unit.active == "inactive" and unit.result in ("", "success")


def keeps_restarting(before: Unit, after: Unit) -> bool:
    """Whether systemd had to restart it since we did."""
    return was_restarted(before, after) and isinstance(after.restarts, int) and after.restarts > 0


def was_restarted(before: Unit, after: Unit) -> bool:
    """Whether *after* is another run of it than *before*."""
    pairs = ((before.invocation, after.invocation), (before.since, after.since), (before.pid, after.pid))
    return any(new and new != old and not isinstance(new, Unknown) for old, new in pairs)


def condition(unit: Unit) -> str:
    """Describe its state, for people."""
    words = f"{unit.id} is {unit.active}" + (f" ({unit.sub})" if unit.sub and unit.sub != unit.active else "")
    faults = [f"result: {unit.result}"] if unit.result not in ("", "success") else []
    if faults and isinstance(unit.exit_status, int) and unit.exit_status:
        faults.append(f"exit status {unit.exit_status}")
    if isinstance(unit.restarts, int) and unit.restarts:
        faults.append(f"restarted by systemd {unit.restarts}x")
    return words + (f", {', '.join(faults)}: journalctl -u {unit.id} says why" if faults else "")
