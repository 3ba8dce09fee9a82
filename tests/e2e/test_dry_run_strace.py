"""A dry run of every playbook, under strace: it makes, writes, renames and removes nothing on the host."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from runbook import lab
from runbook.lab import LabHost
from tests.support.program import Practice, Said, runbook, scene
from tests.support.strace import Traced, traced

PLAYBOOKS = {
    "training-crash": ("gpu-01=update_timeout",),
    "restart-loop": ("gpu-02=restart_loop",),
    "raise-timeouts": ("gpu-03=short_timeouts",),
    "disk-slow": ("gpu-01=update_timeout",),
    "stuck-node": ("leader=leader+no_gpu", "gpu-04=stuck"),
    "reset-node-jobs": ("leader=leader+no_gpu", "gpu-05=miscounted"),
    "cleanup-stuck-nodes": ("leader=leader+no_gpu",),
    "pipeline-hang": ("gpu-06=inference_died",),
    "component-logs": ("gpu-06=inference_died",),
    "isolate-with-fake-data": ("gpu-07=pipeline_ended",),
    "reallocate-gpus": ("gpu-06=inference_died",),
    "zombie-gpu": ("gpu-08=leftovers+busy",),
    "cuda-context": ("gpu-08=leftovers+busy",),
    "try-server": ("gpu-08=leftovers+busy",),
    "runner-monitor": ("gpu-08=leftovers+busy",),
    "monitor": ("gpu-08=leftovers+busy",),
    "gpu-health": ("gpu-09=gpu_lost",),
    "gpu-lost": ("gpu-09=gpu_lost",),
    "gpu-row-remap": ("gpu-10=xid_reset+remap_pending",),
    "gpu-xid": ("gpu-10=xid_reset+remap_pending",),
    "gpu-reset": ("gpu-10=xid_reset+remap_pending",),
    "gpu-throttle": ("gpu-11=throttled",),
    "gpu-hang": ("gpu-11=throttled",),
    "driver-mismatch": ("gpu-12=mismatch",),
    "nfs-hang": ("gpu-12=mismatch",),
    "nvlink": ("gpu-13=fabric_down",),
    "time-sync": ("gpu-12=mismatch",),
    "shm-full": ("shm-01=shm_full",),
    "mig-layout": ("gpu-13=fabric_down",),
    "fabric-manager": ("gpu-13=fabric_down",),
    "ib-link": ("gpu-14=ib_down+nccl_waits",),
    "nccl-timeout": ("gpu-14=ib_down+nccl_waits",),
    "node-drain": ("gpu-11=throttled",),
    "node-undrain": ("gpu-11=throttled",),
    "node-reboot": ("gpu-11=throttled",),
    "node-evidence": ("gpu-11=throttled",),
}
DOCKER = {
    "container-death": ("gpu-21=died_of_memory+at_work",),
    "disk-full": ("gpu-22=docker_full+at_work",),
    "docker-prune": ("gpu-22=docker_full+at_work",),
    "docker-logging-setup": ("gpu-23=unbounded_logs+at_work",),
    "runner-preflight": ("gpu-23=unbounded_logs+at_work",),
    "host-oom": ("gpu-21=died_of_memory+at_work",),
    "container-lost-gpu": ("gpu-24=lost_gpu",),
    "docker-recover": ("gpu-25=docker_dead",),
}
EXECS = {"container-lost-gpu": "/tmp"}
"""Directories whose times change as `docker exec` makes a file there for its runtime, and removes it (docs/security.md)."""
OWN_NAMES = r'"[^"]*/?\.runbook-[^"]+"|<[^>]*/\.runbook-[^>]*>'
"""Of the steps that say ``scratch: true``, with ``--scratch``: names that nothing else has."""

LAB = r'"/run/lab/state/'
"""What the lab's nvidia-smi was asked, which it writes down; the real one does not."""

pytestmark = pytest.mark.real("strace", "lab", "sshd")


@pytest.fixture(scope="module")
def practice(request, tmp_path_factory):
    """A lab that all of this module looks at; nothing changes it."""
    asked = {*WITHOUT_ROW, *_rows(request)}
    faults = sorted({it for playbook, hosts in PLAYBOOKS.items() if playbook in asked for it in hosts})
    yield from _lab(tmp_path_factory.mktemp("strace"), faults)


@pytest.fixture(scope="module")
def with_docker(request, tmp_path_factory):
    asked = _rows(request)
    faults = sorted({it for playbook, hosts in DOCKER.items() if playbook in asked for it in hosts})
    yield from _lab(tmp_path_factory.mktemp("strace"), faults)


WITHOUT_ROW = ("disk-slow", "zombie-gpu")
"""The playbooks whose hosts are needed by tests that name them themselves."""


def _rows(request: pytest.FixtureRequest) -> set[str]:
    """The playbooks that this module is run for: no other host has to start."""
    items = (it for it in request.session.items if it.path == request.path)
    return {
        it.callspec.params["playbook"] for it in items if isinstance(it, pytest.Function) and hasattr(it, "callspec")
    }


def _lab(folder: Path, faults: list[str]) -> Iterator[Practice]:
    made = lab.up(lab.LabOptions(directory=folder / "lab", faults=tuple(faults)))
    yield Practice(made)
    lab.down(made.directory)


@contextmanager
def watched(practice: Practice, names: list[str], into: Path) -> Iterator[tuple[Traced, Path]]:
    """What is done on these hosts of the lab, and the inventory by which they are reached."""
    hosts = [it for it in practice.lab.hosts if it.name in names]
    with traced(hosts, into / "trace") as (seen, ports):
        text = practice.lab.inventory.read_text()
        for it in hosts:
            old, new = (f"ssh_host: {it.address}\n    ssh_port: {port}\n" for port in (it.port, ports[it.name]))
            assert old in text
            text = text.replace(old, new)
        (into / "hosts.yaml").write_text(text)
        yield seen, into / "hosts.yaml"


def dry_run(practice: Practice, playbook: str, names: list[str], into: Path, *options: str, allowed: str = LAB) -> Said:
    """What a dry run says that leaves nothing; a call that could is an error."""
    leader = next((it.address for it in practice.lab.hosts if it.name == "leader"), "")
    inputs = scene(playbook) if playbook in lab.SCENARIOS else ()
    inputs = tuple(it.replace("ADDRESS_OF_LEADER", leader) for it in inputs)
    hosts = [it for it in practice.lab.hosts if it.name in names]
    with watched(practice, names, into) as (seen, inventory):
        where = ("-i", str(inventory), "--hosts", ",".join(names), "--output", "json")
        began = f"{time.time():.9f}"
        before = files_of(hosts)
        said = runbook("run", playbook, "--dry-run", *where, *inputs, *options)
        after = files_of(hosts)
    assert said.code in (0, 1), said.err
    assert {it["host"]: it["error"] for it in said.document["hosts"]} == dict.fromkeys(names)
    assert seen.lines > 50, "strace saw the commands of the probes"
    assert seen.lasting(LAB, allowed) == []
    if allowed == LAB:
        assert own_changes(before, after, began, EXECS.get(playbook)) == []
    return said


LIST = (
    "find / /tmp /run /var -xdev \\( -path /run/lab -o -path /proc -o -path /sys -o -path /dev -o -path /run/docker -o "
    "-path /var/lib/docker \\) -prune -o "
    "-printf '%p\\t%i %y %m %U:%G %s %T@ %C@\\n'"
)
"""Every file that a dry run may not change: its inode, kind, mode, owner, size and times; not what the lab notes,
nor what the Docker engine does with its own files when it is asked."""


def files_of(hosts: Sequence[LabHost]) -> dict[tuple[str, str], str]:
    """What stands on the disks of *hosts*, by host and path, as somebody sees it who looks from outside."""
    found = {}
    for host in hosts:
        inside = ("nsenter", "-t", str(host.pid), "-m", "--", "sh", "-c", LIST)
        done = subprocess.run(inside, capture_output=True, text=True, check=False)
        assert done.stdout.count("\n") > 100, done.stderr
        for line in done.stdout.splitlines():
            path, _, rest = line.partition("\t")
            found[host.name, path] = rest
    return found


def own_changes(
    before: dict[tuple[str, str], str], after: dict[tuple[str, str], str], began: str, timeless: str | None
) -> list[str]:
    """What has changed, but for files of this machine that a lab host shows below its own, and that others change.

    *timeless* is a directory whose times may change.
    """
    changed = []
    for name, path in sorted({*before, *after}):
        was, is_now = before.get((name, path)), after.get((name, path))
        if path == timeless and was and is_now:
            was, is_now = was.rsplit(" ", 2)[0], is_now.rsplit(" ", 2)[0]
        if was != is_now and _changed_here(path) != _changed_at(is_now) and _changed_here(path) < began:
            changed.append(f"{name} {path}: {was} {is_now}")
    return changed


def _changed_at(line: str | None) -> str:
    return line.rpartition(" ")[2][:20] if line else ""


def _changed_here(path: str) -> str:
    try:
        nanoseconds = os.lstat(path).st_ctime_ns
    except OSError:
        return ""
    return f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}"[:20]


IN_THE_GATE = {"zombie-gpu", "raise-timeouts", "docker-prune"}


def each(playbooks: dict) -> list:
    """Their names; most are tried by `make soak` only."""
    return [name if name in IN_THE_GATE else pytest.param(name, marks=pytest.mark.soak) for name in playbooks]


@pytest.mark.parametrize("playbook", each(PLAYBOOKS))
def test_a_dry_run_leaves_nothing(practice, playbook, tmp_path):
    names = [it.partition("=")[0] for it in PLAYBOOKS[playbook]]
    dry_run(practice, playbook, names, tmp_path)


def test_a_dry_run_measures_with_files_of_its_own_only_where_it_was_asked_to(practice, tmp_path):
    """Mutant: ``without_scratch`` that leaves no step out."""
    names = [it.partition("=")[0] for it in PLAYBOOKS["disk-slow"]]
    (tmp_path / "plain").mkdir()
    plain = dry_run(practice, "disk-slow", names, tmp_path / "plain")
    step = plain.step(names[0], "speed")
    assert (step["status"], "--scratch" in step["why"]) == ("skipped", True)
    slow = plain.finding(names[0], "slow")
    assert (slow["status"], "--scratch" in slow["why"]) == ("unknown", True)
    (tmp_path / "measured").mkdir()
    measured = dry_run(
        practice, "disk-slow", names, tmp_path / "measured", "--scratch", "-e", "size=8MiB", allowed=OWN_NAMES
    )
    assert measured.step(names[0], "speed")["status"] == "ok"


@pytest.mark.real("docker")
@pytest.mark.parametrize("playbook", each(DOCKER))
def test_a_dry_run_on_a_host_with_docker_leaves_nothing(with_docker, playbook, tmp_path):
    dry_run(with_docker, playbook, [it.partition("=")[0] for it in DOCKER[playbook]], tmp_path)


def test_every_playbook_is_here():
    there = {it.stem for it in (Path(__file__).parents[2] / "playbooks").glob("*.yaml")}
    assert {*PLAYBOOKS, *DOCKER} == there


def test_what_leaves_something_is_seen(practice, tmp_path):
    """What makes the tests above worth something."""
    lines = f"cd '{tmp_path}'; : >file; mkdir folder; ln -s x link; chmod 600 file; mv file moved; rm -r moved folder"
    with watched(practice, ["gpu-08"], tmp_path) as (seen, inventory):
        said = runbook("exec", "gpu-08", "-i", str(inventory), "--yes", "--", "sh", "-c", f"{lines}; echo x >/dev/null")
    assert said.code == 0, said.err
    calls = " ".join(seen.lasting())
    for it in (
        '"file", O_',
        'mkdir("folder"',
        "ln symlink",
        "chmod",
        "rename",
        '"moved"',
        "unlink",
        '"folder", AT_REMO',
    ):
        assert it in calls, calls
    assert "/dev/null" not in calls
