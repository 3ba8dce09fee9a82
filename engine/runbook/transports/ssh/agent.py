"""Ask the ssh-agent of the user for its keys, and to sign, each within a limited time."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

import paramiko
from paramiko.agent import AgentSSH

VARIABLE = "SSH_AUTH_SOCK"


class Agent(AgentSSH):
    """The agent at ``$SSH_AUTH_SOCK``, which is asked when its keys are wanted first.

    Paramiko's own waits for ever for one that does not answer, such as a forwarded one whose machine is asleep.
    """

    def __init__(self, within: float) -> None:
        """*within*: seconds for one answer."""
        super().__init__()
        self._within, self._asked = within, False
        self.fault = ""
        """Why the keys of the agent are not known, or one of them could not sign; empty where that is not so."""

    def held(self) -> Sequence[paramiko.AgentKey]:
        """The keys that it holds: none where there is no agent, or where it does not answer."""
        if not self._asked and (path := os.environ.get(VARIABLE)):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(self._within)
            try:
                connection.connect(path)
                self._connect(connection)  # type: ignore[attr-defined] # paramiko's own asks here
            except (OSError, paramiko.SSHException) as error:
                self._note(error)
                connection.close()
        self._asked = True
        return self.get_keys()

    def close(self) -> None:
        """Hang up."""
        self._close()  # type: ignore[attr-defined] # as paramiko's own does

    def _send_message(self, msg: Any) -> Any:
        try:
            return super()._send_message(msg)  # type: ignore[misc] # every question goes through it
        except (OSError, paramiko.SSHException) as error:
            raise paramiko.SSHException(self._note(error)) from error

    def _note(self, error: Exception) -> str:
        why = f"within {self._within:g} s" if isinstance(error, TimeoutError) else f"({_reason(error)})"
        self.fault = self.fault or f"the agent at {VARIABLE} ({os.environ.get(VARIABLE, '')}) does not answer {why}"
        return self.fault


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
