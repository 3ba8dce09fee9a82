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
"""Parameters: ``$1`` the number of lines of each log, ``$2`` the folder.

Then, for each component: name, program, folder, log and PATH.  Lines of a log are indented by one space, so that none
can be taken for a line of the script.  Output from before the present start of a component is left out.
"""

WATCHER = script(__package__, "components_watcher")
"""Starts a component in a session of its own, waits for it, and records its end.

Its environment has ``runbook_script`` (this text), ``folder``, ``name``, ``turn``, ``boot``, ``setsid``, ``digest``,
``log``, ``cwd`` and ``umask``.  The words of a component are no arguments of the watcher, so that a pattern for the
component does not match the watcher.  On stdin come the numbers of variables and of words, then these, so that no
list of processes shows a variable.  All names of the script begin with ``runbook_``, to differ from those of a
component's variables.  It waits in the foreground, because a shell's background processes would ignore SIGINT.
"""
