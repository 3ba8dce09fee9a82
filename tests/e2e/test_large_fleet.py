"""A large fleet with every mishap in it: the other hosts are done as if alone, and nothing of ours stays anywhere.

``RUNBOOK_TEST_FLEET=1000`` makes it a thousand hosts.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from tests.e2e.marked_processes import NAME as MARK
from tests.e2e.marked_processes import still_marked
from tests.support.program import runbook
from tests.support.sshd import PLAIN_USER, free_port, sshd_fleet, with_plain_user

pytestmark = [pytest.mark.real("sshd", "root"), pytest.mark.soak]

COUNT = int(os.environ.get("RUNBOOK_TEST_FLEET", "100"))
DOWN, SILENT, HANGING, CUT = 10, 5, 5, 5

BOOK = """\
name: fleet
about: A probe, and a change that leaves a mark.
diagnose:
  - id: look
    timeout: 10s
    command:
      script: 'case $1 in hanging-*) sleep 600 ;; esac; echo well'
      params: ['{{ host.name }}']
remediate:
  - id: mark
    when: look.exit_code == 0
    timeout: 30s
    command:
      check: {script: 'test "$(tail -n 1 "$1/$2" 2>/dev/null)" = ended', params: [FOLDER, '{{ host.name }}']}
      do:
        script: |
          echo begun >>"$1/$2"
          case $2 in cut-*)
            pid=$$
            until [ "$(cat /proc/$pid/comm)" = sshd ]; do pid=$(sed 's/.*) . \\([0-9]*\\) .*/\\1/' /proc/$pid/stat); done
            kill -9 $pid ;;
          esac
          sleep 0.2
          echo ended >>"$1/$2"
        params: [FOLDER, '{{ host.name }}']
"""


class Mute:
    """A server that takes connections and says nothing."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.taken: list[socket.socket] = []
        self._taking = threading.Thread(target=self._take, daemon=True)
        self._taking.start()

    def _take(self) -> None:
        try:
            while True:
                self.taken.append(self.socket.accept()[0])
        except OSError:
            return

    def close(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)  # a close alone wakes nobody who waits in accept
        self._taking.join()
        for it in (self.socket, *self.taken):
            it.close()


@pytest.fixture
def shared():
    """A folder that every user can go to, with a folder `marks` in which every user can write."""
    with tempfile.TemporaryDirectory(prefix="runbook-fleet-") as name:
        made = Path(name)
        made.chmod(0o755)
        (made / "marks").mkdir()
        (made / "marks").chmod(0o777)
        yield made


def test_a_fleet_with_every_mishap_is_done_as_if_they_were_not_there(tmp_path, shared):
    """Mutants: fleet.py that waits for a host in its place in line; that leaves out a host of which nothing is known."""
    marks, mute, closed = shared / "marks", Mute(), free_port()
    names = [f"down-{number:02}" for number in range(DOWN)] + [f"silent-{number}" for number in range(SILENT)]
    live = [f"hanging-{number}" for number in range(HANGING)] + [f"cut-{number}" for number in range(CUT)]
    live += [f"gpu-{number:04}" for number in range(COUNT - len(names) - len(live))]
    addresses = {name: f"127.2.{number // 250}.{number % 250 + 1}" for number, name in enumerate(live)}
    fleet = sshd_fleet(tmp_path, list(addresses.values()), with_plain_user(shared), extra=f"SetEnv {MARK}=1")
    names = sorted([*names, *live], key=lambda name: hash((name, "mixed")))
    with contextlib.closing(mute), fleet as server:
        lines = []
        for name in names:
            port = {"down": closed, "silent": mute.port}.get(name.partition("-")[0], server.port)
            login = f"ssh_user: {PLAIN_USER}, ssh_key: {server.key}, is_ephemeral: true"
            address = addresses.get(name, "127.0.0.1")
            lines.append(f"  {name}: {{ssh_host: {address}, ssh_port: {port}, {login}}}\n")
        (tmp_path / "hosts.yaml").write_text("hosts:\n" + "".join(lines))
        (tmp_path / "fleet.yaml").write_text(BOOK.replace("FOLDER", str(marks)))
        said = runbook(
            "run", str(tmp_path / "fleet.yaml"), "-i", str(tmp_path / "hosts.yaml"), "--hosts", "all", "--yes",
            "--parallel", "50", "--output", "json", "--connect-timeout", "20s", "--shell-timeout", "90s", timeout=800,
        )  # fmt: skip
        assert said.code == 1, said.err
        assert {it["host"] for it in said.document["hosts"]} == set(names)
        wrong = {}
        for host in said.document["hosts"]:
            kind, seen = (
                host["host"].partition("-")[0],
                (host["verdict"], host["error"] or said.step(host["host"], "mark")["why"]),
            )
            written = (marks / host["host"]).read_text() if (marks / host["host"]).exists() else ""
            good = {
                "gpu": seen[0] == "resolved" and written == "begun\nended\n",
                "down": seen[0] == "unreachable" and "connection refused" in seen[1] and not written,
                "silent": seen[0] == "unreachable" and "no SSH banner" in seen[1] and not written,
                "hanging": seen[0] != "resolved" and "did not end within 10 s" in seen[1] and not written,
                "cut": seen[0] == "unknown" and "not sent again" in str(host["steps"]) and written.count("begun") == 1,
            }[kind]
            if not good:
                wrong[host["host"]] = (*seen, written)
        assert wrong == {}
        assert still_marked() == []
        assert all((marks / f"cut-{it}").read_text() == "begun\nended\n" for it in range(CUT)), (
            "each ran on to its end, once"
        )
