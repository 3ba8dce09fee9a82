"""Log in with private keys, from files and from an agent."""

from __future__ import annotations

import os
import socket
import struct
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import paramiko
from paramiko.agent import AgentSSH
from paramiko.pkey import UnknownKeyType

from runbook.connections.transports.ssh.error_translation import NextAddress
from runbook.connections.transports.ssh.ssh_config import ssh_config
from runbook.errors import Unreachable
from runbook.protocols import ConnectOptions
from runbook.values.inventory import Host
from runbook.values.login_names import fault_in_host

VARIABLE = "SSH_AUTH_SOCK"


class Agent(AgentSSH):
    """The agent at ``$SSH_AUTH_SOCK``; it is asked when its keys are first needed.

    Paramiko's own class waits forever for an agent that does not answer, such as one forwarded from a sleeping machine.
    """

    def __init__(self, within: float) -> None:
        """Set the seconds *within* which the agent must answer each request."""
        super().__init__()
        self._within, self._asked = within, False
        self.fault = ""
        """The reason why the keys of the agent are unknown, or why one of them could not sign; empty if there was no
        failure.
        """

    def held(self) -> Sequence[paramiko.AgentKey]:
        """Return the keys of the agent; none if there is no agent, or if it does not answer."""
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
        """Close the connection to the agent."""
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


DEFAULT = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
"""The key files that OpenSSH offers if nothing names a key."""

STRANGERS = 3
"""The maximum number of agent keys that are offered besides the named key: servers disconnect after six (MaxAuthTries).
"""


UNANSWERED = "Authentication timeout"
"""The message of paramiko if a server neither accepts nor refuses a key in time: nothing was refused."""


class _Locked(Exception):
    """The key in a file is encrypted; *public* is its public half."""

    def __init__(self, public: bytes) -> None:
        self.public = public
        super().__init__()


class Login:
    """The login to one host; paramiko calls ``authenticate`` once the host's key is accepted."""

    def __init__(self, user: str, named: str, configured: Iterable[str], options: ConnectOptions) -> None:
        """Collect the key files; *named*: the key file in the inventory; *configured*: the key files in ssh_config."""
        self._user, self._named, self._options = user, _expanded(named), options
        written = [self._named] if named else [_expanded(word) for word in configured]
        self._files = written or [word for word in map(_expanded, DEFAULT) if Path(word).is_file()]
        self._notes: list[str] = []

    def authenticate(self, transport: paramiko.Transport) -> None:
        """Offer the keys one after the other, until the server accepts one.

        Raises Unreachable if none is accepted, NextAddress if the server stops answering.
        """
        agent = Agent(self._options.connect_timeout)
        try:
            self._offer_all(transport, agent)
        finally:
            agent.close()

    def _offer_all(self, transport: paramiko.Transport, agent: Agent) -> None:
        offered: set[bytes] = set()
        for key in self._keys(agent):
            if key.asbytes() in offered:
                continue
            offered.add(key.asbytes())
            try:
                left = transport.auth_publickey(self._user, key)
            except paramiko.AuthenticationException as error:
                if UNANSWERED in str(error):
                    raise NextAddress(f"the server does not answer whether {self._user} may log in") from error
                continue
            except (paramiko.SSHException, EOFError) as error:
                if agent.fault:
                    raise Unreachable(self._refused(agent.fault)) from error
                if not transport.is_active():
                    raise Unreachable(self._refused(f"the host hung up after {len(offered)} keys")) from error
                continue
            if not left:
                return
            self._notes.append(f"a key was accepted, but the host requires more authentication: {' or '.join(left)}")
            break
        if agent.fault:
            self._notes.append(agent.fault if offered else f"no key was offered: {agent.fault}")
        raise Unreachable(self._refused())

    def _refused(self, *more: str) -> str:
        key = f" with {self._named}" if self._named else ""
        notes = "; ".join((*more, *self._notes))
        return f"login as {self._user}{key} was refused" + (f" ({notes})" if notes else "")

    def _keys(self, agent: Agent) -> Iterator[paramiko.PKey]:
        """Yield the keys in the order in which they are offered; the agent is asked only when it is needed."""
        yield from self._from_files(agent)
        yield from agent.held()[: STRANGERS + len(self._files)]

    def _from_files(self, agent: Agent) -> Iterator[paramiko.PKey]:
        for path in self._files:
            try:
                yield _loaded(path, self._options.passphrases.get(path, ""))
            except _Locked as locked:
                mine = [key for key in agent.held() if key.asbytes() == locked.public]
                yield from mine
                if not mine and path in self._options.passphrases:
                    self._notes.append(f"the passphrase given for {path} does not open it")
                elif not mine:
                    self._notes.append(f"the key {path} is encrypted, and no agent holds it (ssh-add {path})")
            except OSError as error:
                self._notes.append(f"{path}: {(error.strerror or str(error)).lower()}")
            except ValueError:
                self._notes.append(f"{path} holds no private key in a format that is known")


def locked(hosts: Iterable[Host]) -> tuple[str, ...]:
    """Return the encrypted private key files of *hosts*, from the inventory or ssh_config, that no agent holds."""
    try:
        config = ssh_config()
    except Unreachable:
        return ()  # it is said when a host is connected to
    paths = dict.fromkeys(path for host in hosts for path in _key_files(host, config))
    agent = Agent(ConnectOptions().connect_timeout)
    try:
        return tuple(path for path in paths if _is_locked(path, agent))
    finally:
        agent.close()


def _key_files(host: Host, config: paramiko.SSHConfig) -> list[str]:
    if host.transport != "ssh":
        return []
    own = [host.key] if host.key else []
    for address in () if own else host.addresses:
        if fault_in_host(address.host):
            continue  # it is refused when the host is connected to
        own += config.lookup(address.host).get("identityfile", [])
    return [*map(_expanded, own), *(_key_files(host.via, config) if host.via else ())]


def _is_locked(path: str, agent: Agent) -> bool:
    try:
        _loaded(path, "")
    except _Locked as found:
        return found.public not in {key.asbytes() for key in agent.held()}
    except (OSError, ValueError):
        return False
    return False


def _expanded(path: str) -> str:
    return os.path.expanduser(path)


def _loaded(path: str, passphrase: str) -> paramiko.PKey:
    """Return the private key in the file *path*.

    Raises _Locked if the passphrase is missing, OSError, or ValueError if the file holds no private key.
    """
    text = Path(path).read_bytes()
    if b"PRIVATE KEY" not in text:
        raise ValueError(path)
    try:
        return _opened(path, text, passphrase)
    except (paramiko.PasswordRequiredException, TypeError) as error:
        raise _Locked(_public(path, text)) from error
    except (ValueError, paramiko.SSHException, UnknownKeyType) as error:
        if passphrase:
            raise _Locked(_public(path, text)) from error
        raise ValueError(path) from error


@lru_cache(maxsize=64)
def _opened(path: str, text: bytes, passphrase: str) -> paramiko.PKey:
    """Return the key in the file *path* with the content *text*; cached, because checking a passphrase is slow."""
    return paramiko.PKey.from_path(path, passphrase.encode() or None)  # type: ignore[arg-type] # bytes go to cryptography


def _public(path: str, text: bytes) -> bytes:
    """Return the public half of an encrypted key: from the key file if its format (OpenSSH's) has it, else from
    ``.pub``.
    """
    try:
        if b"BEGIN OPENSSH PRIVATE KEY" in text:
            body = b64decode(b"".join(line for line in text.splitlines() if not line.startswith(b"-----")))
            rest = body.removeprefix(b"openssh-key-v1\0")
            for _ in range(3):
                rest = rest[4 + struct.unpack(">I", rest[:4])[0] :]
            return rest[8 : 8 + struct.unpack(">I", rest[4:8])[0]]
        return b64decode(Path(f"{path}.pub").read_bytes().split()[1])
    except (OSError, IndexError, NotBase64, struct.error):
        return b""
