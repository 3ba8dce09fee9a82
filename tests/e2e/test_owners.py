"""Idle is not left over: who is ended and who is spared, by whose the process is, on real hosts of the lab."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.waiting import until

pytestmark = pytest.mark.real("lab", "sshd")

TABLE = yaml.safe_load((Path(__file__).parent / "owners_played.yaml").read_text())
HOSTS = {fault.replace("_", "-"): wanted for fault, wanted in TABLE["hosts"].items()}
SPARED = ("owned", "starting", "serving")
INCIDENT = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"


def options(name: str) -> list[str]:
    return [word for text in TABLE["runs"][name] for word in ("-e", text)]


def held(lab, host: str) -> bool:
    return "nvidia" in lab.exec(host, "ls -l /proc/[0-9]*/fd 2>/dev/null | grep -e '-> /dev/nvidia[0-9]' || true")


def came_to(said, host: str) -> tuple[str, str]:
    """What becomes of the process that holds the GPU, and what is said of its owner."""
    findings = {it["id"]: it for it in said.host(host)["findings"]}
    step = said.step(host, "stop_leftovers")
    if step["victims"]:
        return "ended", "; ".join(it["owner"] for it in step["victims"])
    spared = [name for name in SPARED if findings[name]["status"] == "present"]
    if spared:
        return spared[0], findings[spared[0]]["say"]
    if findings["held"]["status"] == "unknown":
        return "unknown", f"unknown: {findings['held']['why'].partition('is not known: ')[2]}"
    return str(step["status"]), step["why"]


def played(lab, name: str) -> list[str]:
    """What came out otherwise than in the table, in a dry run with the options of that name."""
    said, wrong = lab.run("zombie-gpu", *options(name), "--dry-run"), []
    assert said.writes() == []
    for host, wanted in HOSTS.items():
        what, owner = came_to(said, host)
        shown = what in ("starting", "serving", "blocked") or wanted["owner"] in owner
        if what != wanted[name] or not shown:
            wrong.append(f"{name}, {host}: {what} ({owner}), wanted {wanted[name]} ({wanted['owner']})")
    return wrong


@pytest.mark.soak
def test_what_is_asked_for_is_done_also_where_it_has_an_owner(practice):
    """Mutants: `victims` of zombie-gpu without `spare_owned`; `end` without it."""
    lab = practice(*(f"{host}={host.replace('-', '_')}" for host in HOSTS))
    for host in HOSTS:
        until(lambda host=host: held(lab, host), f"{host} holds its GPU")
    assert not (wrong := played(lab, "owned too") + played(lab, "at work or not")), "\n".join(wrong)


def test_each_owner_is_asked_and_shown_and_only_who_has_none_is_ended(practice):
    """Mutants: owners.py without each of its owners; an unknown one taken for none; `owned` without `owner` in a victim."""
    lab = practice(*(f"{host}={host.replace('-', '_')}" for host in HOSTS))
    for host in HOSTS:
        until(lambda host=host: held(lab, host), f"{host} holds its GPU")
    assert not (wrong := played(lab, "as it comes") + played(lab, "old enough")), "\n".join(wrong)
    lab.exec("idle-server", f"echo '{INCIDENT}' >/root/job.log")
    said = lab.run(
        "zombie-gpu", *options("old enough"), "-e", 'logs=["/root/job.log"]', "--dry-run", hosts="idle-server"
    )
    assert came_to(said, "idle-server")[0] == "ended", "a log with this incident's error"
    done = lab.run("zombie-gpu", *options("old enough"), "--yes")
    ended = {host for host, wanted in HOSTS.items() if wanted["old enough"] == "ended"}
    assert {host for host in HOSTS if not held(lab, host)} == ended, done.out
    assert {host for host in HOSTS if done.host(host)["verdict"] == "resolved"} == ended
