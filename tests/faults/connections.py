"""Hosts that do not let us in, and lines that are cut."""

from __future__ import annotations

import time

from tests.faults.cut_proxy import Proxy
from tests.faults.environment import Place, Told
from tests.support.sshd import Sshd, make_key
from tests.support.waiting import until


def inventory(place: Place, server: Sshd, *, port: int = 0, user: str = "root", key: str = "", fields: str = "") -> str:
    """An inventory with *server* as its only host, called far."""
    text = (
        f"ssh_host: {server.address}, ssh_port: {port or server.port}, ssh_user: {user}, ssh_key: {key or server.key}"
    )
    return str(place.file("far.yaml", f"hosts:\n  far: {{{text}, gpu: none{fields}}}\n"))


def wrong_host_key(place: Place) -> Told:
    """A host whose key is not the one that we know."""
    server = place.sshd()
    other = make_key(place.folder / "other").with_suffix(".pub").read_text()
    place.file("home/.ssh/known_hosts", f"[{server.address}]:{server.port} {other}")
    said = place.run(place.playbook(), inventory=inventory(place, server))
    assert not list(place.folder.rglob("home/.config/runbook/known_hosts")), "the new key is not taken for a good one"
    return said


def wrong_key(place: Place) -> Told:
    """A key that the host does not know."""
    key = make_key(place.folder / "other")
    return place.run(place.playbook(), inventory=inventory(place, place.sshd(), key=str(key)))


def wrong_user(place: Place) -> Told:
    """A user that the host does not have."""
    return place.run(place.playbook(), inventory=inventory(place, place.sshd(), user="nosuchuser"))


def _cut_while_looking(place: Place, *, refuse: bool) -> tuple[Told, Proxy]:
    server = place.sshd()
    proxy = Proxy(server.address, server.port)
    place.finally_(proxy.stop)
    book = place.playbook("diagnose:\n  - {id: look, command: {argv: [sleep, '1.0625']}}\n")
    run = place.start("run", book, "--hosts", "all", inventory=inventory(place, server, port=proxy.port))
    run.until(lambda: place.lives("sleep 1.0625"), "the probe begins")
    proxy.cut(refuse=refuse)
    return run.ended(), proxy


def cut_once_while_looking(place: Place) -> Told:
    """The line is cut in the middle of a probe, and the host can be reached again."""
    said, proxy = _cut_while_looking(place, refuse=False)
    assert proxy.lines == 2, "the probe is taken again, once"
    return said


def cut_for_good_while_looking(place: Place) -> Told:
    """The line is cut in the middle of a probe, and the host is gone."""
    return _cut_while_looking(place, refuse=True)[0]


def cut_during_a_write(place: Place) -> Told:
    """The line is cut in the middle of a change, which ends on the host all the same, once."""
    server, log = place.sshd(), place.folder / "writes"
    proxy = Proxy(server.address, server.port)
    place.finally_(proxy.stop)
    book = place.playbook(
        "remediate:\n"
        f"  - id: write\n    command: {{do: {{script: 'echo begun >>{log}; sleep 1; echo ended >>{log}'}}}}\n"
        f"  - id: later\n    command: {{do: {{script: 'echo later >>{log}'}}}}\n"
    )
    run = place.start("run", book, "--yes", "--hosts", "all", inventory=inventory(place, server, port=proxy.port))
    run.until(log.exists, "the write begins")
    proxy.cut()
    said = run.ended()
    until(lambda: log.read_text().endswith("ended\n"), "the write to end on the host")
    time.sleep(0.3)  # noqa: TID251 that nothing more is sent shows with time only
    assert log.read_text() == "begun\nended\n", "it is sent once, and what stands behind it never"
    return said
