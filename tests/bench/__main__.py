"""What our looks cost over SSH, beside the floor and beside Fabric's own ``run``: ``make bench``.

Every round connects to the same sshd on loopback, sends the same ten commands in three ways, and hangs up.  The floor is
one exec of the whole script; nothing over SSH can be cheaper.  The user is a plain one with an empty profile.  Each figure is the median over the rounds.
"""

from __future__ import annotations

import getpass
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import fabric

from runbook.connections.transports import ssh
from runbook.protocols import ConnectOptions
from runbook.values.command import Command, Effect
from tests.support.sshd import PLAIN_USER, Sshd, start_sshd, with_plain_user

ROUNDS = 20
USER = PLAIN_USER if os.getuid() == 0 else getpass.getuser()
COMMANDS = tuple(f"echo {number}; uname -r" for number in range(10))


class Never:
    """Nobody interrupts a benchmark."""

    def level(self) -> int:
        return 0


def ours(server: Sshd) -> None:
    connection = ssh.connect(server.host(user=USER), ConnectOptions(), Never())
    done = connection.run(*(Command(script=it, effect=Effect.READ, timeout=30) for it in COMMANDS))
    assert [it.stdout.split()[0] for it in done] == [str(it) for it in range(10)]
    connection.close()


def one_by_one(server: Sshd) -> None:
    connection = ssh.connect(server.host(user=USER), ConnectOptions(), Never())
    for it in COMMANDS:
        assert connection.run(Command(script=it, effect=Effect.READ, timeout=30))[0].exit_code == 0
    connection.close()


def opened(server: Sshd) -> fabric.Connection:
    keys = {"key_filename": str(server.key), "look_for_keys": False, "allow_agent": False}
    return fabric.Connection(server.address, user=USER, port=server.port, connect_kwargs=keys)


def floor(server: Sshd) -> None:
    with opened(server) as connection:
        connection.open()
        channel = connection.transport.open_session()
        channel.exec_command("sh -c '" + "\n".join(COMMANDS) + "'")
        assert channel.makefile().read().count(b"\n") == 20
        assert channel.recv_exit_status() == 0


def fabric_run(server: Sshd) -> None:
    with opened(server) as connection:
        for it in COMMANDS:
            connection.run(it, hide=True, in_stream=False)


def bare(server: Sshd) -> None:
    with opened(server) as connection:
        connection.open()


def measured(way: Callable[[Sshd], None], server: Sshd) -> float:
    began = time.perf_counter()
    way(server)
    return time.perf_counter() - began


def main() -> None:
    ways = {"connect only": bare, "floor: one exec": floor, "runbook: one call": ours,
            "runbook: ten calls": one_by_one, "Fabric: ten runs": fabric_run}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        server = start_sshd(Path(folder) / "sshd", before=with_plain_user(Path(folder)) if os.getuid() == 0 else ())
        try:
            measured(ours, server)
            times = {name: [] for name in ways}
            for _ in range(ROUNDS):
                for name, way in ways.items():
                    times[name].append(measured(way, server))
        finally:
            server.stop()
    base = statistics.median(times["floor: one exec"])
    for name, each in times.items():
        middle = statistics.median(each)
        print(f"{name:20} {middle * 1000:7.1f} ms   {middle / base:5.2f} x the floor")


if __name__ == "__main__":
    main()
