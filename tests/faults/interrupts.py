"""Ctrl-C in every phase of a run."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from tests.faults.connections import inventory
from tests.faults.environment import Place, Running, Told


def _interrupted(run: Running, here: Path, what: str) -> Told:
    """Wait for the file *here*, and press Ctrl-C."""
    run.until(here.exists, what)
    run.interrupt()
    return run.ended()


def connecting(place: Place) -> Told:
    """Somebody takes the connection, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        fields = f"ssh_host: 127.0.0.1, ssh_port: {port}, ssh_user: root, gpu: none"
        hosts = place.file("mute.yaml", f"hosts:\n  far: {{{fields}}}\n  later: {{{fields}}}\n")
        run = place.start(
            "run", place.playbook(), "--hosts", "all", "--parallel", "1", "--connect-timeout", "60s", inventory=hosts
        )
        taken, _ = mute.accept()
        run.interrupt()
        said = run.ended()
        taken.close()
    assert said.seconds < 30
    assert said.host("later")["verdict"] == "not_started"
    return said


def looking(place: Place) -> Told:
    """A probe that would take a minute."""
    book = place.playbook("diagnose:\n  - {id: look, timeout: 60s, command: {argv: [sleep, '61.0625']}}\n")
    run = place.start("run", book, "--hosts", "all", terminal=True)
    run.until(lambda: place.lives("sleep 61.0625"), "the probe begins")
    run.interrupt()
    return run.ended()


def at_the_prompt(place: Place) -> Told:
    """A plan is shown, and nobody says yes."""
    made = place.folder / "made"
    book = place.playbook(f"remediate:\n  - {{id: write, command: {{do: {{argv: [touch, {made}]}}}}}}\n")
    run = place.start("run", book, "--hosts", "all", terminal=True)
    run.says("Do this on 1 host?")
    run.interrupt()
    said = run.ended()
    assert not made.exists()
    return said


def writing(place: Place) -> Told:
    """A write is left to come to its end, and what stands behind it is not begun."""
    log = place.folder / "writes"
    book = place.playbook(
        "remediate:\n"
        f"  - {{id: write, command: {{do: {{script: 'echo begun >>{log}; sleep 1; echo ended >>{log}'}}}}}}\n"
        f"  - {{id: later, command: {{do: {{script: 'echo later >>{log}'}}}}}}\n"
    )
    said = _interrupted(place.start("run", book, "--hosts", "all", "--yes", terminal=True), log, "the write begins")
    assert log.read_text() == "begun\nended\n"
    return said


RELAY = """
import os, select, socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as line:
    while True:
        for it in select.select([0, line], [], [])[0]:
            chunk = os.read(0, 65536) if it == 0 else line.recv(65536)
            if not chunk:
                sys.exit()
            line.sendall(chunk) if it == 0 else os.write(1, chunk)
"""


def writing_through_a_proxy(place: Place) -> Told:
    """The terminal's Ctrl-C does not end the program that carries the line, and with it the write."""
    server, log = place.sshd(), place.folder / "writes"
    command = f"{sys.executable} {place.file('relay.py', RELAY)} {server.port}"
    place.file("home/.ssh/config", f"Host 127.0.0.1\n  ProxyCommand {command}\n")
    book = place.playbook(
        f"remediate:\n  - {{id: write, command: {{do: {{script: 'echo begun >>{log}; sleep 1; echo ended >>{log}'}}}}}}\n"
    )
    where = inventory(place, server, port=1)
    run = place.start("run", book, "--hosts", "all", "--yes", inventory=where, terminal=True)
    said = _interrupted(run, log, "the write begins")
    assert log.read_text() == "begun\nended\n"
    return said


def writing_twice(place: Place) -> Told:
    """The second Ctrl-C ends the write too."""
    log = place.folder / "writes"
    text = f"echo begun >>{log}; sleep 62.0625; echo ended >>{log}"
    book = place.playbook(f"remediate:\n  - {{id: write, command: {{do: {{script: '{text}'}}}}}}\n")
    run = place.start("run", book, "--hosts", "all", "--yes")
    run.until(log.exists, "the write begins")
    run.interrupt()
    run.says("a change that is running may finish")
    run.interrupt()
    said = run.ended()
    assert log.read_text() == "begun\n"
    return said


def second_look(place: Place) -> Told:
    """The change is made, and the probe that would prove it takes long."""
    made = place.folder / "made"
    check = f"if test -e {made}; then sleep 63.0625; fi; exit 1"
    do = f"echo x >>{made}"
    book = place.playbook(
        f"remediate:\n  - {{id: write, command: {{check: {{script: '{check}'}}, do: {{script: '{do}'}}}}}}\n"
    )
    run = place.start("run", book, "--hosts", "all", "--yes")
    run.until(lambda: place.lives("sleep 63.0625"), "the second probe begins")
    run.interrupt()
    said = run.ended()
    assert made.read_text() == "x\n"
    return said


def waiting_for_a_finding(place: Place) -> Told:
    """The finding is gone, and has to stay so for a while."""
    fault, told = place.file("fault", ""), place.folder / "told.jsonl"
    book = place.playbook(
        f"diagnose:\n  - {{id: look, command: {{argv: [test, -e, {fault}], accepts: [0, 1]}}}}\n"
        "findings:\n  - {id: broken, when: look.exit_code == 0, severity: error, say: it is broken, gone_for: 60s}\n"
        f"remediate:\n  - {{id: mend, for: broken, command: {{check: {{argv: [test, '!', -e, {fault}]}}, do: {{argv: [rm, {fault}]}}}}}}\n"
        f"  - {{id: later, for: broken, command: {{do: {{argv: [touch, {fault}]}}}}}}\n"
    )
    run = place.start("run", book, "--hosts", "all", "--yes", "--report", str(told))
    run.until(lambda: told.exists() and "stays gone" in told.read_text(), "it is waited for")
    run.interrupt()
    said = run.ended()
    assert not fault.exists()
    return said
