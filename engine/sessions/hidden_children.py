"""The sh functions that end processes of a command which left its session and cleared its mark."""

from __future__ import annotations

from engine.shell import script

HIDDEN = script(__package__, "hidden_children")
"""Of the watchdog. ``hidden`` ends what is to go with a command, ``hold_on`` says whether and what of it is left.

Of a change that has a control group of its own (``CAGE``) that is everything in it. Without one it is what descends
from the process group (``kin``, as pid:start, searched for before anything is ended); a process whose parent has
already ended is then a child of process 1 and cannot be known from a stranger. ``uncage`` moves what is left, such as a
daemon of a change that ended well, into the control group above, where it would be without us.
"""

CAGE = script(__package__, "control_group")
"""Has the shell enter a control group of its own (cgroup v2), and all that it starts with it, where its user may.

Only for a change that is carried out, for it makes a directory. It lies in the control group that the shell is in,
which must be the user's own, and be where we think that it is: a container can be shown the tree of its host. No
descendant leaves it but on purpose (``outlive`` in ``engine/shell``). When the change is over, the watchdog moves what
is left up and removes the group; when the line is cut, the shell does at the end of its input; where both were killed,
the next change. A pid 0 is a process in another pid namespace. The name holds no long row of hexadecimal digits, which
would be taken for the id of a container.
"""


def cgroup_name(lane: str) -> str:
    """What the control group of the lane named *lane* is called."""
    return "runbook-command-" + "-".join(lane[at : at + 4] for at in range(0, len(lane), 4))
