"""Probation on a host of the lab: a cured host that runbook had drained goes back into service by itself, later."""

from __future__ import annotations

import os
import subprocess

import pytest

from runbook.commands.watch.event_store import EventStore, watch_folder
from runbook.watch.events import Answered, Ended, WatchEvent
from tests.support.program import PROGRAM
from tests.support.waiting import until

pytestmark = [pytest.mark.real("lab", "sshd", "root"), pytest.mark.slow]

TOY = """\
name: toy
about: Removes a mark.
diagnose:
  - {id: mark, name: The mark, command: {script: 'cat /var/tmp/mark 2>/dev/null || echo none'}}
findings:
  - {id: marked, when: "'none' not in mark.stdout", severity: error, say: There is a mark, advise: [Remove it.]}
remediate:
  - id: remove
    name: Remove it
    command: {check: {script: '! test -e /var/tmp/mark'}, do: {script: 'rm -f /var/tmp/mark'}}
"""
CURE = (
    "name: cure\nplaybook: PLACE/toy.yaml\nhosts: all\nfinding: marked\non: {every: 10s}\nthen: apply\nrisk: reboots\n"
)
BACK = "name: back\nplaybook: node-undrain\nhosts: all\non: {cured_by: cure, after: 3s}\nthen: apply\nrisk: reboots\n"


def test_a_cured_host_goes_back_into_service_and_one_that_others_drained_does_not(practice, tmp_path):
    """Mutants: a probation that ends before its time; a return without a probe of our own."""
    lab = practice("ours=slurm", "theirs=slurm_drained")
    assert lab.run("node-drain", "--yes", "-e", "wait=20s", hosts="ours").host("ours")["verdict"] == "resolved"
    for host in ("ours", "theirs"):
        lab.exec(host, "touch /var/tmp/mark")
    (tmp_path / "toy.yaml").write_text(TOY)
    (tmp_path / "watch").mkdir()
    for name, text in (("cure", CURE), ("back", BACK)):
        (tmp_path / f"watch/{name}.yaml").write_text(text.replace("PLACE", str(tmp_path)))
    state = tmp_path / "state"

    def heard(*kinds: type) -> list[WatchEvent]:
        store = EventStore(watch_folder(str(state)))
        try:
            return [each.event for each in store.since(0) if isinstance(each.event, kinds)]
        finally:
            store.close()

    def flags(host: str) -> str:
        return (lab.lab.state(host) / "slurm/flags").read_text().strip()

    words = ("--rules", str(tmp_path / "watch"), "--state", str(state), "-i", str(lab.lab.inventory),
             "--records", str(tmp_path / "records"), "--accept-new-host-keys")  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        watcher = subprocess.Popen(
            [*PROGRAM, "watch", "run", *words], env={**os.environ}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        until(lambda: [it for it in heard(Ended) if it.rule == "back"], "the return")
        until(lambda: [it for it in heard(Answered) if (it.rule, it.host, it.question) == ("back", "theirs", "probe")])
    finally:
        watcher.terminate()
        assert watcher.wait(60) == 0
    ended = [event for event in heard(Ended) if isinstance(event, Ended)]
    assert sorted((event.rule, event.host, event.cured) for event in ended) == [
        ("back", "ours", True), ("cure", "ours", True), ("cure", "theirs", True),
    ]  # fmt: skip
    cured, back = (next(it.at for it in ended if (it.rule, it.host) == (rule, "ours")) for rule in ("cure", "back"))
    assert back - cured > 3
    assert (flags("ours"), flags("theirs")) == ("", "DRAIN")
