"""Read the jump hosts from Ansible's ssh arguments: ``-J``, ``-o ProxyJump=``, and an equivalent ProxyCommand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from runbook.dataclass import dataclass

_JUMP = re.compile(r"(?:(?P<user>[^@\s,]+)@)?(?P<host>[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?")
_PREFIXED = re.compile(r"(?:ssh://)?(?P<rest>[^/]*)/?")
_KEY_CHECKS = ("stricthostkeychecking", "userknownhostsfile", "globalknownhostsfile", "loglevel")
"""Options of a ProxyCommand that do not change the route; host keys are checked as for every host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """One jump host."""

    text: str
    """The text of the jump host in the file, without the scheme."""
    host: str
    user: str = ""
    port: str = ""
    key: str = ""


Jumps = tuple[Jump, ...]
"""The jump hosts, in the order in which the connection passes them."""


def jumps_in(text: str) -> tuple[Jumps | None, str]:
    """Return the jump hosts in the ssh arguments *text*, and the remaining arguments.

    The jump hosts are None if there is no such argument, and empty for ``ProxyJump=none``.  The first argument is
    used, as by ssh.  Raises ValueError.
    """
    words, rest = shlex.split(text), list[str]()
    found: list[Jumps] = []
    at = 0
    while at < len(words):
        option, value, used = _option(words, at)
        at += used
        key, _, setting = value.partition("=") if "=" in value else value.partition(" ")
        match option, key.strip().lower():
            case "-J", _:
                found.append(_listed(value))
            case "-o", "proxyjump":
                found.append(_listed(setting.strip()))
            case "-o", "proxycommand":
                found.append(_commanded(shlex.split(setting)))
            case _:
                rest += words[at - used : at]
    return (found[0] if found else None), " ".join(rest)


def _option(words: Sequence[str], at: int) -> tuple[str, str, int]:
    """Return the option at *at*, its value, and the number of words of both.

    Only the options -J, -o, -p, -l, -i and -W have a value.
    """
    word = words[at]
    option, value = word[:2], word[2:]
    if option not in ("-J", "-o", "-p", "-l", "-i", "-W"):
        return word, "", 1
    if value:
        return option, value, 1
    return (option, words[at + 1], 2) if at + 1 < len(words) else (word, "", 1)


def _listed(text: str) -> Jumps:
    return () if text.lower() == "none" else tuple(_jump(part) for part in text.split(","))


def _jump(text: str) -> Jump:
    written = _PREFIXED.fullmatch(text.strip())
    found = _JUMP.fullmatch(written["rest"]) if written else None
    if not found:
        raise ValueError("names no host")
    host = found["host"].strip("[]")
    return Jump(text=found[0], host=host, user=found["user"] or "", port=found["port"] or "")


def _commanded(words: Sequence[str]) -> Jumps:
    """Return the jump hosts in a command ``ssh -W %h:%p [-q] [-p PORT] [-l USER] [-i KEY] [USER@]HOST``."""
    if [word.lower() for word in words] == ["none"]:
        return ()
    if not words or words[0].rpartition("/")[2] != "ssh":
        raise ValueError("is another program than ssh")
    given: dict[str, str] = {}
    at = 1
    while at < len(words):
        option, value, used = _option(words, at)
        at += used
        if option == "-o" and re.split(r"[= ]", value)[0].lower() not in _KEY_CHECKS:
            raise ValueError("has other options")
        if not option.startswith("-") and "host" not in given:
            given["host"] = option
        elif option in ("-W", "-p", "-l", "-i") and value:
            given[option] = value
        elif option not in ("-q", "-o", "-x", "-T", "-a"):
            raise ValueError("has other options")
    if given.get("-W") not in ("%h:%p", "[%h]:%p") or "host" not in given:
        raise ValueError("leads elsewhere")
    jump = _jump(given["host"])
    return (
        Jump(
            text=jump.text,
            host=jump.host,
            user=jump.user or given.get("-l", ""),
            port=jump.port or given.get("-p", ""),
            key=given.get("-i", ""),
        ),
    )
