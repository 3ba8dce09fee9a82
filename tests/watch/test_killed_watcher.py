"""A watcher that is killed at any moment acts on no episode twice, and forgets none."""

from __future__ import annotations

import random
import time

import pytest

from runbook.watch.events import Alerted, Answered, Began, Ended
from tests.support.waiting import until
from tests.watch.watch_scene import WatchScene

HOSTS = tuple(f"h{number}" for number in range(5))


@pytest.mark.parametrize(
    "moments",
    [pytest.param(4, marks=pytest.mark.slow), pytest.param(50, marks=[pytest.mark.soak, pytest.mark.longest])],
)
def test_no_episode_is_acted_upon_twice_or_forgotten(tmp_path, moments):
    """Mutants: a run that was begun and is not followed after a restart; an episode that is not stored."""
    order = random.Random(moments)
    scene = WatchScene(
        tmp_path,
        hosts=HOSTS,
        keys={
            "on": "{alert: HostFaulty}", "then": "apply\nrisk: reboots", "ineffective": "0",
            "inputs": f"{{place: {tmp_path}/marks, takes: 1.5}}",
        },
    ).made()  # fmt: skip
    kills, episodes = 0, 0
    while kills < moments:
        episodes += 1
        for host in HOSTS:
            scene.break_host(host)
        since = time.time()
        scene.store(
            *(
                Alerted(at=since, rule="toy", host=host, episode=f"{episodes}@{host}", since=since, firing=True)
                for host in HOSTS
            )
        )
        done = 0
        while done < len(HOSTS):
            process = scene.process()
            moment = order.uniform(0.3, 5)
            ended_before = time.monotonic() + moment

            def is_over(end: float = ended_before, of: int = episodes) -> bool:
                return time.monotonic() > end or _acted(scene, of) == len(HOSTS)

            until(is_over, within=60)
            process.kill()
            process.wait()
            kills += 1
            done = _acted(scene, episodes)
        until(lambda: not any(map(scene.is_broken, HOSTS)), within=60)
        assert [scene.runs(host) for host in HOSTS] == [episodes] * len(HOSTS)
    began = [(event.host, event.episode) for event in scene.events(Began)]
    ended = [(event.host, event.digest) for event in scene.events(Ended) if event.changed]
    assert len(set(ended)) == len(ended)
    assert set(began) == {(host, f"{number}@{host}") for number in range(1, episodes + 1) for host in HOSTS}
    assert not [event for event in scene.events(Answered) if event.decision == "escalate"]


def _acted(scene: WatchScene, episode: int) -> int:
    """Return the number of hosts whose run for *episode* has ended with the host cured."""
    digests = {event.digest for event in scene.events(Began) if event.episode.startswith(f"{episode}@")}
    return len({event.host for event in scene.events(Ended) if event.digest in digests and event.cured})
