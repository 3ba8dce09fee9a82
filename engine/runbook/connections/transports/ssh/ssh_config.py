"""Read the ssh_config files; the inventory takes precedence."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import paramiko
import paramiko.config
from paramiko.ssh_exception import ConfigParseError

from runbook.dataclass import dataclass
from runbook.errors import Unreachable
from runbook.values.inventory import Address

FILES = ("~/.ssh/config", "/etc/ssh/ssh_config")
"""The files of ssh_config, in order: the first value of an option counts (ssh_config(5))."""
MATCH_EXEC_TIMEOUT = 30.0
"""Seconds that a command of ``Match exec`` may take."""


@dataclass(frozen=True)
class _Ended:
    ok: bool


class MatchExec:
    """Runs the commands of ``Match exec`` as OpenSSH does, in place of the `invoke` that paramiko would use.

    `invoke` gives the commands our own stdin, on which somebody may be typing an answer.  It also needs bash, and
    leaves
    its pipes open.
    """

    @staticmethod
    def run(command: str, **_: object) -> _Ended:
        """Run *command* and return how it ended.  Raises Unreachable if it takes too long, after ending all its
        processes.
        """
        shell = os.environ.get("SHELL") or "/bin/sh"  # ssh_config(5): "executed under the user's shell"
        try:
            running = subprocess.Popen(
                (shell, "-c", command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                process_group=0,
            )  # fmt: skip
        except OSError as error:
            raise Unreachable(
                f"{shell} cannot be run for the Match exec of your ssh_config: {error.strerror}"
            ) from error
        try:
            return _Ended(running.wait(MATCH_EXEC_TIMEOUT) == 0)
        except subprocess.TimeoutExpired:
            raise Unreachable(
                f"a Match exec of your ssh_config did not end within {MATCH_EXEC_TIMEOUT:g} s: {command}"
            ) from None
        finally:
            if running.returncode is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()


def chosen(written: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the *known* algorithms that *written*, a list of ssh_config such as ``Ciphers``, chooses, in the
    list's order.

    ``+``, ``-`` and ``^`` before the list add to the known algorithms, remove from them, or prefer some
    (ssh_config(5)).
    """
    sign = written[0] if written[:1] in ("+", "-", "^") else ""
    patterns = [part.strip() for part in written.removeprefix(sign).split(",")]
    named = tuple(each for part in patterns for each in known if fnmatchcase(each, part))
    others = tuple(each for each in known if each not in named)
    return {"": named, "+": tuple(known), "-": others, "^": (*named, *others)}[sign] if written else tuple(known)


paramiko.config.invoke = MatchExec  # type: ignore[attr-defined]  # its stubs leave out what it imports


def ssh_config(address: Address | None = None, user: str = "") -> paramiko.SSHConfig:
    """Return the merged ssh_config files; *address* and *user* precede them, so that ``%p`` in a ProxyCommand is right.

    Raises Unreachable if a file exists but cannot be read.
    """
    ours = [f"Host {address.host}"] if address else []
    ours += [f"  Port {address.port}"] if address and address.port else []
    ours += [f"  User {user}"] if address and user else []
    try:
        return paramiko.SSHConfig.from_text("\n".join([*ours, *map(_text, FILES), ""]))
    except ConfigParseError as error:
        raise Unreachable(f"your ssh_config cannot be read: {error}") from error
    except OSError as error:
        raise Unreachable(f"{error.filename} cannot be read: {(error.strerror or '').lower()}") from error


def _text(path: str) -> str:
    try:
        return Path(os.path.expanduser(path)).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
