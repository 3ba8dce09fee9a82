"""Hosts whose programs print what nobody expects, are not there, or may not be used."""

from __future__ import annotations

import json
import pwd
import secrets
import subprocess
from pathlib import Path

from tests.faults.connections import inventory
from tests.faults.environment import Place, Told
from tests.faults.files import NOT_ALMIGHTY
from tests.support.waiting import until

FLOOD = 100_000_000


def a_flood(place: Place) -> Told:
    """100 MB over SSH."""
    book = place.playbook(
        f"diagnose:\n  - {{id: flood, command: {{script: \"yes 'a line of a log' | head -c {FLOOD}\"}}}}\n"
        "  - {id: after, command: {argv: [echo, next]}}\n"
    )
    said = place.run(book, inventory=inventory(place, place.sshd()))
    assert said.memory < 200e6, f"{said.memory / 1e6:.0f} MB"
    assert said.cpu < 10, f"{said.cpu:.1f} s, and {said.seconds:.1f} s in all"
    (flood,) = said.step("far", "flood")["commands"]
    assert 60_000 < len(flood["stdout"]) < 70_000, "the beginning and the end are kept"
    (after,) = said.step("far", "after")["commands"]
    assert after["stdout"] == "next\n", "the probe behind it has its own answer"
    return said


ODD = (
    "printf %s no-newline",
    r"printf '\377\376 caf\351\n\000'",
    r"head -c 20000000 /dev/zero | tr '\0' x",
    "echo next",
)


def odd_output(place: Place) -> Told:
    """Output that ends without a newline, that is not UTF-8, and that is a single long line."""
    looks = [{"id": f"look{it}", "command": {"script": script}} for it, script in enumerate(ODD)]
    said = place.run(place.playbook(f"diagnose: {json.dumps(looks)}\n"))
    texts = [said.step("here", it["id"])["commands"][0]["stdout"] for it in looks]
    assert texts[0] == "no-newline"
    assert texts[1].startswith("\ufffd\ufffd caf\ufffd\n")
    assert texts[2].startswith("xxx")
    assert texts[3] == "next\n"
    return said


def a_tool_that_is_missing(place: Place) -> Told:
    """A probe with a program that the host does not have."""
    return place.run(place.playbook("diagnose:\n  - {id: look, command: {argv: [no-such-tool, --all]}}\n"))


def permission_denied(place: Place) -> Told:
    """A log and a configuration that may not be read, and a program that may not be run."""
    for name in ("job.log", "train.yaml", "tool"):
        place.file(name, "a: 1\n").chmod(0)
    here = place.folder
    book = place.playbook(
        f"diagnose:\n  - {{id: log, log_scan: {{files: [{here}/job.log], signatures: {{error: Error}}}}}}\n"
        f"  - {{id: config, config_patch: {{path: {here}/train.yaml, set: {{a: 2}}}}}}\n"
        f"  - {{id: tool, command: {{argv: [{here}/tool]}}}}\n"
        "findings:\n  - {id: seen, when: log.matches, severity: error, say: 'an error is in the log'}\n"
    )
    return place.run(book, before=NOT_ALMIGHTY)


def _without(user: str) -> None:
    """Remove *user*, once sshd has ended the session of the connection that is over; a process that stays is a fault."""
    uid = pwd.getpwnam(user).pw_uid
    until(lambda: not _processes_of(uid), f"the processes of {user} to end")
    subprocess.run(["userdel", "--remove", user], capture_output=True, check=True)


def _processes_of(uid: int) -> list[str]:
    """By /proc/*/status, as userdel does it: the directories of what sshd runs for a user are root's."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            status = (process / "status").read_text()
            if f"\nUid:\t{uid}\t" in status:
                found.append(f"{process.name} {(process / 'cmdline').read_bytes()!r}")
        except OSError:
            continue
    return found


def sudo_refused(place: Place) -> Told:
    """A user who may not become root: neither for a probe, nor for a change."""
    user = f"rb{secrets.token_hex(5)}"
    subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", "--password", "*", user], check=True)
    place.finally_(lambda: _without(user))
    log = place.folder / "writes"
    book = place.playbook(
        "diagnose:\n  - {id: look, become: true, command: {argv: [id]}}\n"
        f"remediate:\n  - {{id: write, become: true, command: {{do: {{argv: [touch, {log}]}}}}}}\n"
    )
    said = place.run(book, "--yes", inventory=inventory(place, place.sshd(), user=user))
    assert not log.exists()
    return said
