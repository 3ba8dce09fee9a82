"""Fetch a file or the output of a command from a host: the scripts that pack it, and the code that unpacks it.

The data arrives as gzip in base64, as only one of these, or as hexadecimal digits, depending on the programs of the
host; the last line says which.  So bytes arrive unchanged, an incomplete answer is never taken for a complete one, and
text shrinks to about a tenth on its way.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode
from binascii import Error
from dataclasses import replace

from runbook.shell import SAFE, VIEW, script
from runbook.values.command import Command, Completed, Effect, read_script
from runbook.values.kept_file import TIMED_OUT, Fetched, Keep, NotKept

SPARE = 15.0
"""The seconds that the host has beyond the time limit of the command, which the host enforces."""

_PACK = script(__package__, "fetched_output")
_COMMAND = SAFE + _PACK + script(__package__, "fetch_command")
_FILE = VIEW + _PACK + script(__package__, "fetch_file")
_PROBE = VIEW + script(__package__, "fetch_probe")
_PROGRAMS = script(__package__, "fetch_programs")
_LAST = re.compile(r"(?:\A|\n)=end (\d{1,3}) (yes|no) (yes|no)\s*\Z")


def ask_file(path: str) -> Command:
    """Return the command that checks a file: it prints ``there`` and the size, ``absent``, or ``refused`` and the
    reason.
    """
    return replace(read_script(_PROBE, path), called=("fetch-probe", path))


def ask_programs(names: tuple[str, ...]) -> Command:
    """Return the command that prints a line for each program: ``there`` or ``absent``."""
    return replace(read_script(_PROGRAMS, *names), called=("find-programs", *names))


def fetch_file(path: str, keep: Keep) -> Command:
    """Return the command that reads the part of the file *path* that is kept."""
    argv = (*_part(keep), path)
    return Command(script=_FILE, argv=argv, effect=Effect.READ, keep=keep, called=("fetch-file", path))


def fetch_command(argv: tuple[str, ...], keep: Keep, *, limit: float, own_directory: bool, confined: bool) -> Command:
    """Return the command that runs *argv* for at most *limit* seconds, and reads the part of its output that is
    kept.
    """
    words = (*_part(keep), str(max(1, round(limit))), "yes" if own_directory else "no")
    return Command(
        script=_COMMAND,
        argv=(*words, *argv),
        effect=Effect.SCRATCH if own_directory else Effect.READ,
        timeout=limit + SPARE,
        keep=keep,
        foreign=True,
        confined=confined and not own_directory,
        runs=(("", *argv),),
        called=("fetch-output", *argv),
    )


def _part(keep: Keep) -> tuple[str, str]:
    """Return the first arguments of the scripts; they ask for one byte more than is kept, to see whether there is
    more.
    """
    return "yes" if keep.end else "no", str(keep.most + 1)


def unpacked(answer: Completed, keep: Keep, *, ran: bool) -> Fetched | NotKept:
    """Unpack *answer*, and return the content; *ran*: it is the output of a program, not a file."""
    if answer.missing[0]:
        return NotKept(why="it is too large to be sent, even packed: give a smaller `most`")
    last = _LAST.search(answer.stdout)
    if last is None:
        return NotKept(why="the host did not send the whole of it, so nothing is kept")
    code, gzip, base64 = int(last[1]), last[2] == "yes", last[3] == "yes"
    try:
        content = _bytes(answer.stdout[: last.start()], keep.most + 1, gzip=gzip, base64=base64)
    except (Error, ValueError, zlib.error) as error:
        return NotKept(why=f"what the host sent cannot be unpacked, so nothing is kept: {error}")
    cut = len(content) > keep.most
    if cut:
        content = content[-keep.most :] if keep.end else content[: keep.most]
    return Fetched(content=content, cut=cut, exit_code=code if ran else None, timed_out=ran and code in TIMED_OUT)


def _bytes(text: str, most: int, *, gzip: bool, base64: bool) -> bytes:
    """Decode *text* to at most *most* bytes, so that a small text cannot fill the memory.

    Raises ValueError (also base64's own), and zlib.error.
    """
    joined = "".join(text.split())
    raw = b64decode(joined, validate=True) if base64 else bytes.fromhex(joined)
    if not gzip:
        return raw[:most]
    unzip = zlib.decompressobj(wbits=31)
    content = unzip.decompress(raw, most)
    if not unzip.eof and len(content) < most:
        raise ValueError("it ends too early")
    return content
