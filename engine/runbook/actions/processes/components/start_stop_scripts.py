"""Shell scripts that start and end components, one turn at a time."""

from __future__ import annotations

from runbook.actions.processes.components.probe_scripts import COMMON
from runbook.shell import OUTLIVE, script

_TURN = script(__package__, "components_turn")

_END = script(__package__, "components_terminate")

START = COMMON + OUTLIVE + _TURN + _END + script(__package__, "components_start")
"""``$1`` the folder, ``$2`` the last turn, ``$3`` hundredths of a second that TERM may take, ``$4`` those to watch for,
``$5`` whether all are ended when one dies, ``$6`` the watcher. On stdin, each a number of lines and these: ``runs``,
name and pid:start, or ``start``, name, hundredths of a second to wait, log, folder, digest and what the watcher reads;
then ``end``.

Exit code 1: one has died, which a second probe names; 11, 12: nothing was done.
"""

END = COMMON + _TURN + _END + script(__package__, "components_stop")
"""``$1`` the folder, ``$2`` the last turn, ``$3`` hundredths of a second that TERM may take, then one word for each
component in the order of their ends: name and pid:start, or name, ``-`` and the pid:start of each process that is left.
"""
