"""Mount a file system (FUSE) that does not answer until a file says that it may: a server that is gone, and comes back.

Run as a module: TARGET TYPE SOURCE FILE. Requests are taken and kept, as by a server that has stopped working; once
FILE is there they are answered, and so is all that comes then. Source of the format: Linux, include/uapi/linux/fuse.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import sys
import time
from pathlib import Path

LOOKUP, FORGET, GETATTR, STATFS, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = (
    *(1, 2, 3, 17, 26),
    *(27, 28, 29, 36, 42),
)
SILENT = {FORGET, INTERRUPT, BATCH_FORGET}
"""Requests that take no answer."""
NOSUID_NODEV = 6
MAX_REQUEST_BYTES = 1 << 17


def mount(target: str, kind: str, source: str) -> int:
    """The descriptor at which the requests of a new mount arrive.  Raises OSError."""
    connection = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={connection},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    words = (word.encode() for word in (source, target, kind))
    if libc.mount(*words, NOSUID_NODEV, options.encode()):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)
    return connection


def answer(request: bytes) -> bytes:
    """Return the answer of a server with an empty directory to *request*; empty: none."""
    _, operation, unique = struct.unpack_from("<IIQ", request)
    if operation in SILENT:
        return b""
    code, body = _answer(operation, request[40:])
    return struct.pack("<IiQ", 16 + len(body), -code, unique) + body


def _answer(operation: int, rest: bytes) -> tuple[int, bytes]:
    """The number of an error, or 0, and the answer."""
    match operation:
        case 26:  # INIT
            minor = min(31, struct.unpack_from("<II", rest)[1])
            return 0, struct.pack("<IIIIHHIIHHI7I", 7, minor, 65536, 0, 12, 9, 65536, 1, 0, 0, *([0] * 8))
        case 17:  # STATFS: blocks, free, available, inodes, free, block size, longest name, block size
            return 0, struct.pack("<QQQQQIII7I", 1 << 20, 1 << 19, 1 << 19, 10000, 9000, 4096, 255, 4096, *([0] * 7))
        case 3:  # GETATTR of the only directory
            attributes = struct.pack("<QQQQQQIIIIIIIIII", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)
            return 0, struct.pack("<QII", 0, 0, 0) + attributes
        case 27:
            return 0, struct.pack("<QII", 0, 0, 0)
        case 28 | 29:
            return 0, b""
        case 1:
            return errno.ENOENT, b""
        case _:
            return errno.ENOSYS, b""


def serve(connection: int, permitted: Path) -> None:
    """Answer the first request; keep the others until *permitted* is there."""
    os.write(connection, answer(os.read(connection, MAX_REQUEST_BYTES)))
    kept: list[bytes] = []
    while True:
        if select.select([connection], [], [], 0.2)[0]:
            kept.append(os.read(connection, MAX_REQUEST_BYTES))
        while kept and permitted.exists():
            if said := answer(kept.pop(0)):
                try:
                    os.write(connection, said)
                except OSError:  # anybody who asked is gone
                    time.sleep(0)


if __name__ == "__main__":
    opened = mount(*sys.argv[1:4])
    print("up", flush=True)
    serve(opened, Path(sys.argv[4]))
