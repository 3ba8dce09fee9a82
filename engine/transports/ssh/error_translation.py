"""The one place where the words of paramiko and of the sockets become ours."""

from __future__ import annotations

import socket

import paramiko
from paramiko.ssh_exception import NoValidConnectionsError

from engine.errors import Unreachable
from engine.transports.ssh.bounded_transport import TALKS

SILENT = ("No existing session", "Indecipherable protocol version")
"""What paramiko says where no SSH server answers."""

LONGEST = 300
"""Characters of a reason that a library gives."""


class NextAddress(Exception):
    """This address cannot be connected to; the next one may."""


def translated(error: Exception, *, greeted: bool = False) -> Exception:
    """What went wrong while a connection was being made: NextAddress, or Unreachable where no other way would help.

    *greeted*: the server has sent its SSH identification.
    """
    match error:
        case Unreachable() | NextAddress():
            return error
        case NoValidConnectionsError():
            return NextAddress(", ".join(sorted({reason(it) for it in error.errors.values()})))
        case paramiko.ChannelException():
            return NextAddress(f"the jump host cannot connect to it ({error.text.lower()})")
        case paramiko.SSHException() if TALKS in str(error):  # paramiko wraps it
            return NextAddress(TALKS)
        case paramiko.SSHException() if "banner" in str(error).lower() or any(it in str(error) for it in SILENT):
            silent = "does not come to the end of the SSH handshake in time" if greeted else "says no SSH banner"
            return NextAddress(f"it accepts connections but {silent}")
        case OSError() | EOFError() | paramiko.SSHException():
            return NextAddress(reason(error))
    return error


def reason(error: Exception) -> str:
    """Why a socket or a handshake failed, in plain words."""
    match error:
        case socket.gaierror():
            return "the name is not known"
        case ConnectionRefusedError():
            return "connection refused"
        case TimeoutError():
            return "no answer in time"
        case EOFError() | ConnectionResetError() | BrokenPipeError():
            return "the connection was closed while it was being made"
        case OSError() if error.strerror:
            return error.strerror.lower()
    return " ".join((str(error) or type(error).__name__).split())[:LONGEST]  # a server's own words may stand in it
