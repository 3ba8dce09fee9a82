"""Commands that are known to only read a host; a probe with another command is kept from writing, if the host
allows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from runbook.programs.mutating_programs import mutating_command, simple_commands, unwrapped

_READERS = (
    "cat ls stat grep egrep fgrep zgrep zcat head tail wc cut tr diff cmp comm paste fold column nl tac od "
    "strings md5sum sha256sum cksum id whoami groups getent uname arch nproc uptime free df du ps pgrep pidof "
    "pstree lsof lspci lsmod lsblk lscpu lsusb lsns findmnt mountpoint readlink realpath basename dirname pwd "
    "cd test [ true false : echo printf sleep expr seq which type hash command dmesg journalctl last w who "
    "vmstat iostat mpstat ibstat numactl modinfo mount pip pip3 jq getconf locale exit return set export "
    "shift read fi done }"
)
_ASKS: dict[str, str] = {
    "systemctl": "is-active is-enabled is-failed is-system-running status show cat list-units list-unit-files",
    "docker": "ps inspect images version info logs top stats port",
    "podman": "ps inspect images version info logs top stats port",
    "kubectl": "get describe version logs",
    "scontrol": "show ping",
    "ip": "addr address link route neigh",
    "tmux": "ls list-sessions list-windows has-session",
}
_WRITES_BY = {
    "date": r"-[a-zA-Z]*s|--set|[0-9]",
    "hostname": r"[^-]|-F|-b|--file|--boot",
    "sort": r"-[a-zA-Z]*[oT]|--output|--temp",
    "nvidia-smi": r"-f|--filename",
    "find": r"-exec|-ok",
}
"""Programs that only read unless one of these words is given."""

_NAMES_MOUNTS = re.compile(
    r"mounts\b|\bmountinfo\b|\bfindmnt\b|\bmtab\b|statvfs|\bismount\b|\bmountpoint\b|(?:\[|\btest)\s+-w\s|\bos\.access\b"
)
"""Commands that read mount options, or whether a file system is writable.

Such a command is run unconfined, because a read-only view would change its answer.
"""
_NOT_SEEN_THROUGH = re.compile(r"`|\$\(|<<|\beval\b|\bsource\b|(?<!\S)\.\s|\bfunction\b|\(\)")
_HARMLESS_TARGET = re.compile(r"/dev/(?:null|stdout|stderr|fd/\d+)|&?\d+|&-|-")
INTERPRETERS = re.compile(r"(?:python|perl|ruby|node|php|lua|tclsh|Rscript|julia)[\d.]*|[gmn]?awk|expect|bc|sqlite3")


def is_to_be_confined(argv: Sequence[str], script: str = "") -> bool:
    """Whether a command line, or POSIX sh text, of a probe must be kept from writing: it is not known to only read."""
    return _is_to_be_confined(tuple(argv), script)


@lru_cache(maxsize=1024)  # every host of a run is sent the same commands
def _is_to_be_confined(argv: tuple[str, ...], script: str) -> bool:
    if _NAMES_MOUNTS.search(script or " ".join(argv)):
        return False
    return not (_script_only_reads(script) if script else _argv_only_reads(argv))


def interpreter_in(argv: Sequence[str], script: str = "") -> str:
    """Return the interpreter that runs a program of the author; empty if there is none."""
    lines = list(simple_commands(script)) if script else [list(argv)]
    for line in lines:
        words = unwrapped(line)
        name = words[0].rpartition("/")[2] if words else ""
        if INTERPRETERS.fullmatch(name) and words[1:] not in (["--version"], ["-V"]):
            return name
        if (inner := _text_for_a_shell(words)) and (found := interpreter_in((), inner)):
            return found
    return ""


def _text_for_a_shell(words: Sequence[str]) -> str:
    """Return the text after ``sh -c``; empty if *words* do not call a shell in this way."""
    if len(words) > 2 and words[0].rpartition("/")[2] in ("sh", "bash", "dash", "ash") and words[1] in ("-c", "-ec"):
        return words[2]
    return ""


def _script_only_reads(script: str) -> bool:
    """Whether every simple command of *script* is known to only read; False if the script is too complex to tell."""
    if _NOT_SEEN_THROUGH.search(script) or mutating_command((), script):
        return False
    return all(_argv_only_reads(words) for line in simple_commands(script) if (words := _without_targets(line)))


def _without_targets(words: Sequence[str]) -> list[str]:
    """Return *words* without harmless redirections; for another redirection, ``>`` stays, which is no known program."""
    found, target = list[str](), False
    for word in words:
        if target:
            found += [] if _HARMLESS_TARGET.fullmatch(word) else [">"]
        elif word != ">":
            found.append(word)
        target = word == ">"
    if ">" in found:
        return [">"]
    return found[:-1] if target else found


def _argv_only_reads(argv: Sequence[str]) -> bool:
    words = unwrapped(list(argv))
    if not words:
        return True
    program, rest = words[0].rpartition("/")[2], words[1:]
    if mutating_command(words):
        return False
    if inner := _text_for_a_shell(words):
        return _script_only_reads(inner)
    if program in _ASKS:
        return next((word for word in rest if not word.startswith("-")), "") in _ASKS[program].split()
    if program in _WRITES_BY:
        return not any(re.match(_WRITES_BY[program], word) for word in rest)
    if program == "uniq":
        return len([word for word in rest if not word.startswith("-")]) < 2  # the second is written
    return program in _READERS.split()
