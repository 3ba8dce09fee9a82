"""Find the processes of people on a host, which a reboot would end."""

from __future__ import annotations

import re

from runbook.library.processes.facts.table import Row, Table
from runbook.values.types import Unknown

LEAST_UID = 1000
"""The first number of ordinary users (UID_MIN of login.defs)."""

_NOBODY = {"65534", "65535"}

_OF_A_LOGIN = re.compile(
    r"systemd|\(sd-pam\)|sd-pam|sshd(-session)?|dbus-daemon|dbus-broker.*|gpg-agent|ssh-agent|gnome-keyring.*|pipewire.*"
)
"""The processes that a login leaves for its user, and that do no work: a job by one of these names is ended alone."""


def bystanders(table: Table) -> tuple[str, ...] | Unknown:
    """Return the processes of ordinary users, as texts; unknown if this user may not see all processes."""
    if table.hidden:
        return Unknown(why=table.hidden)
    found = [row for row in table.rows.values() if _ordinary(row) and row.process.state not in "ZXx"]
    return tuple(
        f"pid {row.process.pid} of {row.process.user} ({row.name})"
        for row in found
        if not _OF_A_LOGIN.fullmatch(row.name) and row.process.pid not in table.way_in
    )


def _ordinary(row: Row) -> bool:
    return row.uid.isdigit() and int(row.uid) >= LEAST_UID and row.uid not in _NOBODY
