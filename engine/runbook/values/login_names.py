"""Check user and host names that ssh_config may put on a command line (``%r``, ``%h``, ``%n``)."""

from __future__ import annotations

_IN_HOST = "'`\"$\\;&<>|(){}"
"""The characters that OpenSSH refuses in a host name (valid_hostname in its ssh.c), besides white space."""

_IN_USER = "'`\"$;&<>|(){}"
"""The characters that OpenSSH refuses in a user name (valid_ruser), and ``$``, which a shell would expand."""


def fault_in_host(name: str) -> str:
    """Return the reason why *name* cannot be used as the host name of a connection; empty if it can."""
    return _fault(name, _IN_HOST)


def fault_in_user(name: str) -> str:
    """Return the reason why *name* cannot be used as a login name; empty if it can."""
    if name.endswith("\\"):
        return "ends with '\\'"
    return _fault(name, _IN_USER)


def _fault(name: str, refused: str) -> str:
    if name.startswith("-"):
        return "begins with '-'"
    if found := next((word for word in name if word in refused), ""):
        return f"has {found!r} in it, which a shell on this machine could interpret"
    if any(word.isspace() or not word.isprintable() for word in name):
        return "has white space or an unprintable character in it"
    return ""
