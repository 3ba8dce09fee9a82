"""Fold host names into ranges: ``gpu-[01-38]``."""

from __future__ import annotations

import re
from collections.abc import Iterable

MOST = 500
"""Names with several numbers in each take seconds to fold beyond this."""


def fold(names: Iterable[str]) -> str:
    """*names* as a pattern that matches each of them once; names that do not fold stand as a list."""
    once = list(dict.fromkeys(names))
    if len(once) < 2 or any(not re.fullmatch(r"[A-Za-z0-9_.:+-]+", word) for word in once):
        return ",".join(once)
    if len(once) > MOST and any(len(re.findall(r"\d+", word)) > 2 for word in once):
        return ",".join(once)
    folded = _folded(once)
    return folded or ",".join(once)


def _folded(names: list[str]) -> str:
    """What ClusterShell makes of *names*; empty where it cannot be asked."""
    try:
        from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
        from ClusterShell.RangeSet import AUTOSTEP_DISABLED

        nodes = NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP, autostep=AUTOSTEP_DISABLED)
        nodes.fold_axis = None  # the system's settings of ClusterShell have no say here
        return str(nodes)
    except Exception:  # a broken settings file of ClusterShell must not cost us a report
        return ""
