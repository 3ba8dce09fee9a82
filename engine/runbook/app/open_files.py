"""See that this process may open as many files at once as a run needs, before anything is connected to."""

from __future__ import annotations

import resource

from runbook.errors import ConfigError, Problem

OWN = 32
"""Files that are open whatever the number of hosts: streams, reports, the record, libraries (measured: 10 to 20)."""
LEAST_OF_HOST = 2
"""A host has one open at rest (measured: its socket), and another one now and then: a key, the agent, the record."""
MOST_OF_HOST = 8
"""Where all are busy at once: a proxy's three pipes, and the directories on the way to the record."""


def provide_files(hosts: int) -> None:
    """Raise this process's limit of open files to what *hosts* at once need.

    Raises ConfigError where the hard limit does not permit the least of that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OWN + MOST_OF_HOST * hosts
    if soft == resource.RLIM_INFINITY or soft >= most:
        return
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    least = OWN + LEAST_OF_HOST * hosts
    if limit < least:
        fits = max(1, (limit - OWN) // LEAST_OF_HOST)
        words = f"{hosts} hosts at once need {least} open files, and this process may have {limit}"
        raise ConfigError(Problem(message=words, hint=f"--parallel {fits}, or `ulimit -Hn {least}` as root"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
