"""Translate errors of paramiko and of sockets into our own messages."""

from __future__ import annotations

import socket

import paramiko
from paramiko.ssh_exception import NoValidConnectionsError

from runbook.connections.transports.ssh.bounded_transport import TALKS
from runbook.errors import Unreachable

SILENT = ("No existing session", "Indecipherable protocol version")
"""The messages of paramiko if no SSH server answers."""

MAX_REASON_CHARACTERS = 300
"""The characters that are kept of a reason from a library."""


class NextAddress(Exception):
    """This address cannot be connected to, so that the next address is tried.

    *gateway*: the connection through a gateway failed, which says nothing about the address.  *dropped*: the server
    closed
    the connection before the login, as sshd does during too many logins at once (its MaxStartups).
    """

    def __init__(self, message: str, *, gateway: bool = False, dropped: bool = False) -> None:
        self.gateway, self.dropped = gateway, dropped
        super().__init__(message)


class GatewayLost(NextAddress):
    """The connection to a gateway was lost before the login to the host; another connection to the gateway may work."""

    def __init__(self, message: str, *, gateway: bool = True, dropped: bool = False) -> None:
        super().__init__(message, gateway=gateway, dropped=dropped)


class GatewayFailed(Unreachable):
    """The login to a gateway failed."""


def translated(error: Exception, *, greeted: bool = False) -> Exception:
    """Translate an error of connecting into NextAddress, or into Unreachable if no other address would help.

    *greeted*: the server has sent its SSH identification.
    """
    match error:
        case Unreachable() | NextAddress():
            return error
        case NoValidConnectionsError():
            return NextAddress(", ".join(sorted({reason(exception) for exception in error.errors.values()})))
        case paramiko.SSHException() if TALKS in str(error):  # paramiko wraps it
            return NextAddress(TALKS)
        case paramiko.SSHException() if "banner" in str(error).lower() or any(word in str(error) for word in SILENT):
            silent = "does not come to the end of the SSH handshake in time" if greeted else "sends no SSH banner"
            return NextAddress(f"it accepts connections but {silent}", dropped=_hung_up(error.__context__))
        case OSError() | EOFError() | paramiko.SSHException():
            return NextAddress(reason(error), dropped=_hung_up(error))
    return error


def _hung_up(error: BaseException | None) -> bool:
    return isinstance(error, EOFError | ConnectionResetError | BrokenPipeError)


def reason(error: Exception) -> str:
    """Return the reason why a socket or a handshake failed, in plain words."""
    match error:
        case socket.gaierror():
            return "the name cannot be resolved"
        case ConnectionRefusedError():
            return "connection refused"
        case TimeoutError():
            return "no answer in time"
        case EOFError() | ConnectionResetError() | BrokenPipeError():
            return "the connection was closed while it was being set up"
        case OSError() if error.strerror:
            return error.strerror.lower()
    return " ".join((str(error) or type(error).__name__).split())[
        :MAX_REASON_CHARACTERS
    ]  # a server's own words may stand in it
