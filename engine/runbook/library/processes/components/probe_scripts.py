"""Shell scripts that probe the components of a host, and that wait for one to end.

What is kept of them lies in a folder there, with one folder in it for each name of a host, for it may be shared. In
that, for each component: ``NAME.started`` (turn, pid:start, its watcher's pid:start, boot, uptime, time, size of the
log, digest of how it was started), ``NAME.ended`` (turn, exit code, uptime, time) and ``NAME.asked`` (the turn that was
ended on purpose), each put there in one stroke. A turn is one start or end of components, and ``turn.N`` names the
process that does it. Uptimes are in hundredths of a second.
"""

from __future__ import annotations

from runbook.shell import SAFE, script

COMMON = SAFE + script(__package__, "components_common")

PROBE = "LC_ALL=C; export LC_ALL\n" + COMMON + script(__package__, "components_probe")
"""``$1`` lines of each log, ``$2`` the folder, then for each component: name, program, folder, log and PATH.

The lines of a log are indented by one space, so that none can pass for one of ours. What a component wrote before its
present start is left out.
"""

WATCHER = script(__package__, "components_watcher")
"""Starts a component in a session of its own, waits for it, and writes down how it ended.

In its environment stand ``runbook_script`` (this), ``folder``, ``name``, ``turn``, ``boot``, ``setsid``, ``digest``,
``log``, ``cwd`` and ``umask``: no word of a component is an argument of it, so that no pattern for one finds it too. On
stdin come the numbers of variables and of words, then these: no list of processes shows a variable. All names of ours
begin with ``runbook_``, so that no variable of a component is one of them. It waits in the foreground: what a shell
starts in the background would ignore SIGINT for ever.
"""
