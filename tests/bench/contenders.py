"""The same ten commands on many hosts with other programs: ``python contenders.py NAME FILE``.

Runs under the Python of the program that is measured, so nothing of this project is imported.  FILE is JSON: ``hosts``
(addresses), ``port``, ``user``, ``key``, ``parallel``.  Each ends with exit code 0 only if every host gave every answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

COMMANDS = tuple(f"echo {number}; uname -r" for number in range(10))
ANSWERS = 2 * len(COMMANDS)
"""Lines that each host says."""


def _connection(given: dict[str, Any], host: str) -> Any:
    import fabric

    keys = {"key_filename": given["key"], "look_for_keys": False, "allow_agent": False}
    return fabric.Connection(host, user=given["user"], port=given["port"], connect_kwargs=keys)


def floor(given: dict[str, Any]) -> list[int]:
    """One exec of the whole script with Fabric: nothing that keeps the outputs apart can be cheaper over it."""

    def one(host: str) -> int:
        with _connection(given, host) as connection:
            connection.open()
            channel = connection.transport.open_session()
            channel.exec_command("sh -c '" + "\n".join(COMMANDS) + "'")
            lines = channel.makefile().read().count(b"\n")
            return lines if channel.recv_exit_status() == 0 else -1

    with ThreadPoolExecutor(given["parallel"]) as pool:
        return list(pool.map(one, given["hosts"]))


def fabric_per_step(given: dict[str, Any]) -> list[int]:
    """Fabric's own ``run``, once for each command."""

    def one(host: str) -> int:
        with _connection(given, host) as connection:
            return sum(connection.run(it, hide=True).stdout.count("\n") for it in COMMANDS)

    with ThreadPoolExecutor(given["parallel"]) as pool:
        return list(pool.map(one, given["hosts"]))


def asyncssh_per_step(given: dict[str, Any]) -> list[int]:
    """asyncssh's ``run``, once for each command."""
    import asyncssh

    keys = {"username": given["user"], "port": given["port"], "client_keys": [given["key"]]}

    async def one(host: str, turn: asyncio.Semaphore) -> int:
        async with turn, asyncssh.connect(host, known_hosts=None, config=None, agent_path=None, **keys) as connection:
            return sum([(await connection.run(it, check=True)).stdout.count("\n") for it in COMMANDS])

    async def all_of_them() -> list[int]:
        turn = asyncio.Semaphore(given["parallel"])
        return await asyncio.gather(*(one(host, turn) for host in given["hosts"]))

    return asyncio.run(all_of_them())


def parallel_ssh(given: dict[str, Any]) -> list[int]:
    """parallel-ssh's ``run_command``, once for each command."""
    from pssh.clients import ParallelSSHClient

    client = ParallelSSHClient(
        given["hosts"], user=given["user"], port=given["port"], pkey=given["key"], pool_size=given["parallel"]
    )
    lines = dict.fromkeys(given["hosts"], 0)
    for command in COMMANDS:
        for output in client.run_command(command):
            lines[output.host] += len(list(output.stdout))
    return list(lines.values())


def main(name: str, file: str) -> int:
    """Run the contender *name*."""
    contenders = {it.__name__: it for it in (floor, fabric_per_step, asyncssh_per_step, parallel_ssh)}
    answers = contenders[name](json.loads(Path(file).read_text()))
    return 0 if set(answers) == {ANSWERS} else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
