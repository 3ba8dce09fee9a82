"""A host that reboots in the middle, and hosts whose clocks are an hour off."""

from __future__ import annotations

import os
import signal
from datetime import datetime, timedelta

from tests.faults.environment import Place, Told

REBOOTING = """remediate:
  - id: write
    command: {do: {script: 'echo begun >>/run/lab/state/writes; sleep 30; echo ended >>/run/lab/state/writes'}}
  - id: later
    command: {do: {script: 'echo later >>/run/lab/state/writes'}}
"""


def reboot(place: Place) -> Told:
    """The power goes in the middle of a change: every process of the host ends at once."""
    lab = place.lab("gpu-01")
    (host,) = lab.lab.hosts
    log = lab.lab.state("gpu-01") / "writes"
    book = place.playbook(REBOOTING)
    run = place.start("run", book, "--hosts", "all", "--yes", inventory=lab.lab.inventory)
    run.until(log.exists, "the write begins")
    os.kill(host.pid, signal.SIGKILL)
    said = run.ended()
    assert log.read_text() == "begun\n"
    assert said.writes() == []
    next_one = place.run(book, "--yes", inventory=lab.lab.inventory)
    assert next_one.code == 4
    assert next_one.host("gpu-01")["verdict"] == "unreachable"
    assert log.read_text() == "begun\n"
    return said


OFF = """#!/bin/sh
case "$*" in -d*|-r*|*--date*) exec /bin/date "$@";; esac
exec /bin/date -d "%s hour" "$@"
"""
"""A clock that is so many hours off, for everything that asks it."""

STAMP = "%Y%m%d-%H%M%S"
LOOKS = """diagnose:
  - id: fresh
    files: {paths: [/run/lab/job/fresh], younger_than: 10m}
  - id: old
    files: {paths: [/run/lab/job/old], younger_than: 10m}
  - id: log
    log_scan: {files: [/run/lab/job/fresh], signatures: {error: Error}}
  - id: odd
    files: {paths: [/run/lab/job/odd]}
  - id: config
    config_patch: {path: /run/lab/job/train.yaml, set: {timeout: 2}}
findings:
  - {id: stale, when: fresh.age > 600, severity: error, say: "the newest is {{ fresh.age }} s old"}
  - {id: young, when: old.age < 600, severity: error, say: "the old one is {{ old.age }} s old"}
  - {id: quiet, when: "log.last[0].age > 600", severity: error, say: "the log is {{ log.last[0].age }} s old"}
  - {id: late, when: odd.age > 600, severity: warning, say: "one is {{ odd.age }} s old"}
  - {id: low, when: config.needs, severity: error, say: a timeout is low}
remediate:
  - {id: patch, for: low, config_patch: {path: /run/lab/job/train.yaml, set: {timeout: 2}}}
"""


PUT = """mkdir /run/lab/job && cd /run/lab/job && cat >/run/lab/bin/date <<'EOF'
%sEOF
chmod 755 /run/lab/bin/date
for it in fresh:0 old:7200; do
    echo x >${it%%:*} && touch -d "@$(($(/run/lab/bin/date +%%s) - ${it#*:}))" "${it%%:*}"
done
echo x >odd && echo 'timeout: 1' >train.yaml && echo put
"""
"""Two files that the clock of the host has stamped, and one (odd) that another one has."""


def clocks(place: Place) -> Told:
    """One host an hour ahead, one an hour behind."""
    lab = place.lab("ahead", "behind")
    for host, hours in (("ahead", "+1"), ("behind", "-1")):
        assert lab.exec(host, PUT % (OFF % hours)) == "put\n"
    said = place.run(place.playbook(LOOKS), "--yes", inventory=lab.lab.inventory)
    for host in ("ahead", "behind"):
        kept = lab.exec(
            host, f"date +{STAMP}; cd /run/lab/job; cat train.yaml train.yaml.backup-*; ls -d train.yaml.backup-*"
        )
        clock, now, before, name = kept.split("\n")[:4]
        assert (now, before) == ("timeout: 2", "timeout: 1")
        moments = [datetime.strptime(it, STAMP) for it in (name.removeprefix("train.yaml.backup-"), clock)]
        assert abs(moments[0] - moments[1]) < timedelta(minutes=5), "a copy is called by the clock of its host"
        assert lab.exec(host, "ls -A /run/runbook") == "", "the lock is given back"
    return said
