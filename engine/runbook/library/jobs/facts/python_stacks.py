"""Read what Python processes are doing: the frames of their main threads, and what these threads wait for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.shell import script
from runbook.values.command import Command, Completed, Effect

MAX_PROCESSES = 16
"""The maximum number of processes that are inspected."""

MAX_FRAMES = 12
"""The maximum number of frames of a stack that are kept, the innermost ones."""

SECONDS = 10
"""The maximum number of seconds for each process."""

WAITS = (
    ("a collective", r"torch/distributed/|/distributed_c10d\.py$|nccl|/mpi4py/"),
    ("an HTTP answer", r"/(?:aiohttp|httpx|httpcore|requests|urllib3|openai)/|/http/client\.py$|/urllib/request\.py$"),
    ("a worker of Ray", r"/ray/(?:_private|util|actor)"),
    ("another process", r"/multiprocessing/|/subprocess\.py$|/concurrent/futures/process\.py$"),
    ("a queue", r"/queue\.py$"),
    ("the network", r"/(?:socket|ssl)\.py$|/zmq/"),
    ("an event", r"/asyncio/|/selectors\.py$|/uvloop/"),
    ("another thread", r"/threading\.py$|/concurrent/futures/"),
)
"""The files whose frames say what is waited for; the first row that has a frame inside of the program's own counts."""

_LIBRARY = re.compile(r"/lib(?:64)?/python[\d.]+/|/(?:site|dist)-packages/|^<frozen")


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonStack:
    """The stack of one process."""

    pid: int
    """The pid of the process."""
    waits_for: str
    """The subject of the wait, such as a collective, an HTTP answer, a queue; empty if it computes, or the frames do
    not tell.
    """
    works: bool
    """Whether its main thread was computing."""
    at: str
    """The innermost frame of the program's own code: `function (file:line)`."""
    frames: tuple[str, ...]
    """The innermost frames of the main thread, the innermost first."""


def ask_stacks(pids: Sequence[int]) -> Command:
    """Return the command with which py-spy reads the stacks of *pids*."""
    argv = (str(SECONDS), *map(str, pids[:MAX_PROCESSES]))
    return Command(
        script=script(__package__, "python_stacks"), argv=argv, effect=Effect.READ, timeout=5.0 + SECONDS * len(argv)
    )


def read_stacks(done: Completed) -> tuple[tuple[PythonStack, ...], Mapping[int, str]]:
    """Return the stacks, and the reason for each pid without one.  Raises ProbeError where py-spy is not installed."""
    if done.exit_code != 0:
        raise ProbeError(done.why_not("py-spy did not answer"))
    if done.stdout.startswith("no py-spy"):
        raise ProbeError("py-spy is not installed on this host for this user: `pip install py-spy`")
    stacks, failed = list[PythonStack](), dict[int, str]()
    for pid, said in _parts(done.stdout):
        try:
            stacks.append(_stack(pid, json.loads(said)))
        except (ValueError, KeyError, TypeError, AttributeError):
            lines = [line for line in said.splitlines() if line.strip() and not line.startswith("failed ")]
            failed[pid] = lines[-1].strip()[:200] if lines else "py-spy did not answer in time"
    return tuple(stacks), failed


def _parts(said: str) -> Iterator[tuple[int, str]]:
    """Yield the output for each pid."""
    parts = re.split(r"^pid (\d+)$", said, flags=re.MULTILINE)[1:]
    yield from ((int(pid), text) for pid, text in zip(parts[::2], parts[1::2], strict=True))


def _stack(pid: int, threads: Any) -> PythonStack:
    main = next((each for each in threads if each["thread_name"] == "MainThread"), None) or threads[0]
    frames = [(str(each["name"]), str(each["filename"]), int(each["line"])) for each in main["frames"]]
    own = next((place for place, (_, file, _) in enumerate(frames) if not _LIBRARY.search(file)), len(frames))
    works = bool(main["active"])
    shown = [f"{name} ({file.rpartition('/')[2]}:{line})" for name, file, line in frames]
    return PythonStack(
        pid=pid,
        waits_for="" if works else _waits_for([file for _, file, _ in frames[:own]]),
        works=works,
        at=shown[own] if own < len(shown) else (shown[0] if shown else ""),
        frames=tuple(shown[:MAX_FRAMES]),
    )


def _waits_for(files: Sequence[str]) -> str:
    return next((what for what, pattern in WAITS if any(re.search(pattern, file) for file in files)), "")
