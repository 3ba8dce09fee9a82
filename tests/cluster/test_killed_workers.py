"""Workers that are killed again and again: no write twice, no host without a verdict.  A short form, and the whole for `make soak`."""

from __future__ import annotations

import json
import random

import pytest

from tests.cluster.site_scene import Scene
from tests.support.waiting import LIMIT, soon

pytestmark = [pytest.mark.real("postgres"), pytest.mark.slow]


@pytest.mark.parametrize(
    ("hosts", "kills"), [(16, 3), pytest.param(200, 100, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
def test_no_write_is_sent_twice_and_every_host_has_a_verdict(tmp_path, cluster, hosts, kills):
    """Mutants: a permit without the epoch; a task that is tried again; a verdict without the epoch."""
    order = random.Random(hosts)
    sites = {f"h{number}": ("berlin", "oslo")[number % 2] for number in range(hosts)}
    scene = Scene(tmp_path, cluster, sites).made()
    killed = rounds = 0
    try:
        while killed < kills:
            rounds += 1
            for path in (scene.folder / "marks").glob("*"):
                path.unlink()
            living = [scene.worker(site, "--parallel", "4") for site in ("berlin", "oslo") for _ in range(2)]
            process = scene.start("--yes", "-e", "takes=0.2")
            while process.poll() is None and killed < kills and rounds < 60:
                if soon(lambda it=process: it.poll() is not None, within=order.uniform(0.5, 3)):
                    break
                victim = living.pop(order.randrange(len(living)))
                site = "berlin" if "at berlin" in victim.said else "oslo"
                victim.kill()
                killed += 1
                living.append(scene.worker(site, "--parallel", "4"))
            out, err = process.communicate(timeout=4 * LIMIT)
            found = {it["host"]: it["verdict"] for it in json.loads(out)["hosts"]}
            marks = scene.marks()
            assert set(found) == set(sites), err
            assert max(marks.values(), default=0) <= 1, marks
            assert all(
                word in ("resolved", "healthy", "unknown", "not_started", "failed", "cancelled")
                for word in found.values()
            )
            assert all(marks.get(host) == 1 for host, word in found.items() if word in ("resolved", "healthy"))
            for each in living:
                each.kill()
    finally:
        scene.close()
