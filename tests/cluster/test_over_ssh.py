"""Workers over SSH while everything around them fails: kills, standstills, PostgreSQL away or hanging, wrong clocks, limits.

For `make soak`.  Every write is counted on the host.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.cluster.site_scene import verdicts
from tests.cluster.ssh_scene import SshScene, broken_promises, ended, highest
from tests.support.waiting import soon, until

pytestmark = [pytest.mark.real("postgres"), pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(1800)]


def sites(count: int) -> dict[str, str]:
    return {f"h{number}": ("berlin", "oslo")[number % 2] for number in range(count)}


@pytest.fixture
def made(tmp_path, cluster):
    scenes = []

    def make(hosts: dict[str, str], **keys) -> SshScene:
        scenes.append(SshScene(tmp_path, cluster, hosts, **{"ssh": True, **keys}).made())
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.close()


@pytest.mark.parametrize(("many", "kills", "takes", "named"), [(40, 15, 1.0, ()), (40, 15, 0.3, ("--name", "same"))])
def test_workers_are_killed_at_any_moment(made, many, kills, takes, named):
    """Also two workers of one name at each site."""
    order, scene = random.Random(many + len(named)), made(sites(many))
    killed, bad = 0, []
    while killed < kills:
        scene.clear()
        living = scene.staff(2, *named)
        process = scene.start("--yes", "-e", f"takes={takes}")
        while killed < kills and not soon(lambda it=process: it.poll() is not None, within=order.uniform(0.5, 4)):
            place = order.randrange(len(living))
            living[place].kill()
            living[place] = scene.worker(("berlin", "oslo")[place // 2], "--parallel", "2", *named)
            killed += 1
        bad += broken_promises(scene, ended(process))
        for each in living:
            each.kill()
    assert not bad, bad


@pytest.mark.parametrize("how", [os.kill, os.killpg])
def test_a_worker_stands_still_for_long(made, how):
    scene = made(sites(12))
    workers = scene.staff(2)
    process = scene.start("--yes", "-e", "takes=2")
    until(lambda: len(scene.marks()) >= 4)
    victims = [it for it in workers if "signed by" in it.said][:2]
    for each in victims:
        how(each.process.pid, signal.SIGSTOP)
    time.sleep(25)  # noqa: TID251 longer than the silence after which a shard is given on
    for each in victims:
        how(each.process.pid, signal.SIGCONT)
    assert broken_promises(scene, ended(process)) + scene.works_on() == []


STANDS_STILL = """\
import os, signal
if os.environ.get("STAND_STILL"):
    from runbook.cluster.shard import Shard
    ask, beat, once = Shard.ask, Shard.beat, []
    def late(self, host, step, *words, **keys):
        answer = ask(self, host, step, *words, **keys)
        if isinstance(answer, float) and step == "write" and not once:
            once.append(1)
            os.kill(os.getpid(), signal.SIGSTOP)
        return answer
    def slow(self):
        import time
        time.sleep(0.3)  # the way to a PostgreSQL that is far away
        return beat(self)
    Shard.ask, Shard.beat = late, slow
"""


@pytest.mark.parametrize("how", ["given on", "stopped"])
def test_a_permit_is_not_used_long_after_it_was_given(made, monkeypatch, how):
    """Mutant: a write without ``send_before``."""
    scene = made({"h0": "berlin"})
    (scene.folder / "patched").mkdir()
    (scene.folder / "patched/sitecustomize.py").write_text(STANDS_STILL)
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(scene.folder / "patched"))
        patch.setenv("STAND_STILL", "1")
        first = scene.worker("berlin")
    process = scene.start("--yes")
    until(lambda: scene.cluster.sql("SELECT count(*) FROM runbook.permit")[0][0] == 1)
    if how == "given on":
        scene.worker("berlin")
    else:
        process.send_signal(signal.SIGINT)
    assert verdicts(ended(process)) == {"h0": "unknown"}
    assert scene.marks() == {}
    first.send(signal.SIGCONT)
    time.sleep(8)  # noqa: TID251 for what might be sent late
    assert scene.marks() == {}


@pytest.mark.parametrize("seconds", [5, 60])
def test_postgresql_is_away(made, seconds):
    scene = made(sites(12))
    scene.staff(2)
    process = scene.start("--yes", "-e", "takes=1.5")
    until(lambda: len(scene.marks()) >= 4)
    scene.cluster.server.stop("immediate")
    time.sleep(seconds)  # noqa: TID251 that long nobody answers
    scene.cluster.server.start()
    said = ended(process)
    permitted = {host for (host,) in scene.cluster.sql("SELECT host FROM runbook.permit WHERE step = 'write'")}
    assert set(scene.marks()) <= permitted
    assert scene.cleaned() >= set(scene.marks())
    assert broken_promises(scene, said) + scene.works_on() == []


def processes_of(server) -> list[int]:
    def parent(path: Path) -> int:
        try:
            return int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            return 0

    return [server.pid, *(int(it.parent.name) for it in Path("/proc").glob("[0-9]*/stat") if parent(it) == server.pid)]


@pytest.mark.parametrize("seconds", [20, 55])
def test_postgresql_hangs(made, seconds):
    """Mutants: a settle without ``since``; connections that nobody cuts."""
    scene = made(sites(12))
    scene.staff(2)
    process = scene.start("--yes", "-e", "takes=1.5")
    until(lambda: len(scene.marks()) >= 4)
    stopped = processes_of(scene.cluster.server)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)  # noqa: TID251 that long nobody answers
        written, cleaned = scene.marks(), scene.cleaned()
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    said = ended(process)
    assert cleaned >= set(written) or seconds < 30
    doubt = [
        (it["host"], it["error"], [step["why"] for step in it["steps"]])
        for it in said.document["hosts"]
        if it["verdict"] == "unknown"
    ]
    assert doubt == []
    assert broken_promises(scene, said) + scene.works_on() == []


def test_a_person_leaves_while_postgresql_hangs(made):
    scene = made({f"h{number}": "berlin" for number in range(4)})
    scene.worker("berlin")
    process = scene.start("--yes", "-e", "takes=4")
    until(lambda: len(scene.marks()) == 4)
    stopped = processes_of(scene.cluster.server)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(2)  # noqa: TID251 between two Ctrl-C
        assert soon(lambda: process.poll() is not None, within=60)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    said = ended(process)
    assert (said.code, set(verdicts(said).values())) == (130, {"unknown"})


@pytest.mark.parametrize("who", ["run", "attach", "both"])
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_of_whoever_follows(made, who, times):
    scene = made(sites(12))
    scene.staff()
    process = scene.start("--yes", "-e", "takes=6")
    until(lambda: len(scene.marks()) >= 3)
    follower = scene.attach(scene.last_run())
    until(lambda: soon(lambda: follower.poll() is not None, within=4) or True)
    asked = 0.0
    for _ in range(times):
        asked = time.time()
        for each in {"run": [process], "attach": [follower], "both": [process, follower]}[who]:
            each.send_signal(signal.SIGINT)
        time.sleep(1)  # noqa: TID251 between two Ctrl-C
    for each in (process, follower):
        said = ended(each)
        assert (said.code, broken_promises(scene, said)) == (130, []), said.err
    assert [host for host, what, at, _ in scene.log() if what == "begin" and at > asked + 1] == []
    assert scene.works_on() == []


LIMITS = {
    "max_unavailable: 3": (3, lambda _: "all"),
    "max_concurrent_per: {rack: 2}": (2, lambda host: str(int(host[1:]) % 3)),
    "batches: [1, 3]": (3, lambda _: "all"),
    "max_unavailable: 4, max_concurrent_per: {rack: 1}": (1, lambda host: str(int(host[1:]) % 3)),
}


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize(("rounds", "kills"), [(25, 0), (2, 3)])
def test_limits_are_exact_over_four_workers(made, limits, rounds, kills):
    most, group = LIMITS[limits]
    order, scene = random.Random(limits), made(sites(12), limits=limits, ssh=False)
    living = scene.staff(2)
    for _ in range(rounds):
        scene.clear()
        process = scene.start("--yes", "-e", f"takes={1.5 if kills else 0.2}")
        for _ in range(kills):
            if soon(lambda it=process: it.poll() is not None, within=order.uniform(2, 5)):
                break
            place = order.randrange(4)
            living[place].kill()
            living[place] = scene.worker(("berlin", "oslo")[place // 2], "--parallel", "2")
        said = ended(process, 600)  # each command that a dead worker may have sent keeps its place for 90 s
        assert broken_promises(scene, said) == [], said.err
        assert max(highest(scene.log(), group).values()) <= most
        assert kills or set(verdicts(said).values()) == {"resolved"}


@pytest.mark.parametrize("limits", ["batches: [1]", "batches: [1], order: reverse_sorted", "max_unavailable: 1"])
def test_hosts_are_changed_in_the_order_that_they_have_without_workers(made, limits):
    hosts = {"zebra": "berlin", "m": "berlin", "aa": "oslo", "canary-1": "oslo"}
    scene = made(hosts, limits=limits, ssh=False)
    scene.staff()
    found = []
    for via in ("local", "cluster"):
        scene.clear()
        assert ended(scene.start("--yes", "--via", via, "-e", "takes=0.2")).code == 0
        found.append([host for host, what, *_ in scene.log() if what == "begin"])
    assert found[0] == found[1]


def test_a_command_that_goes_on_after_its_worker_died_keeps_its_place(made):
    """Mutant: a place that is given back as soon as another worker has the shard."""
    scene = made({"h0": "berlin", "h3": "oslo"}, limits="max_concurrent_per: {rack: 1}")
    rows = scene.folder / "hosts.yaml"
    rows.write_text(rows.read_text().replace("rack: r1", "rack: r0"))
    first = scene.worker("berlin")
    process = scene.start("--yes", "-e", "takes=50")
    until(lambda: scene.marks().get("h0"))
    scene.worker("oslo")
    first.kill()
    scene.worker("berlin")
    ended(process)
    assert soon(lambda: [what for _, what, *_ in scene.log()].count("end") == 2, within=120)
    assert max(highest(scene.log()).values()) == 1


def test_a_limited_run_whose_client_is_killed_ends_by_itself(made):
    """Mutant: sites that settle their own shards alone."""
    scene = made({"a0": "oslo", "b1": "berlin", "b2": "berlin"}, limits="batches: [1, 2]", ssh=False)
    worker = scene.worker("berlin", "--shards", "1")
    process = scene.start("--yes", "--start-within", "5s")
    until(lambda: "signed by" in worker.said)
    run = scene.last_run()
    process.kill()
    process.communicate()
    assert soon(lambda: "ended" in worker.said, within=60)
    assert verdicts(ended(scene.attach(run))) == {"a0": "not_started", "b1": "resolved", "b2": "resolved"}


def test_a_shard_that_waits_for_the_other_shards_of_its_own_run_is_not_late(made):
    scene = made({f"h{number}": "berlin" for number in range(30)}, ssh=False)
    scene.worker("berlin", "--shards", "1", "--parallel", "15")
    said = ended(scene.start("--yes", "-e", "takes=8", "--start-within", "6s"))
    assert set(verdicts(said).values()) == {"resolved"}


def test_a_worker_that_was_full_for_a_while_takes_the_next_shard(made):
    """Mutant: a periodic task with a lock of its own, which ends the queue while all places are taken."""
    scene = made({f"h{number}": "berlin" for number in range(3)})
    worker = scene.worker("berlin", "--shards", "2")
    first = scene.start("--yes", "-e", "takes=50", hosts="h0")
    second = scene.start("--yes", "-e", "takes=20", hosts="h1")
    until(lambda: len(scene.marks()) == 2)
    assert verdicts(ended(second)) == {"h1": "resolved"}
    assert verdicts(ended(scene.start("--yes", "--start-within", "15s", hosts="h2"))) == {"h2": "resolved"}
    ended(first)
    assert "the queue failed" not in worker.said


WRONG = """\
import datetime, os, time
shift = float(os.environ.get("CLOCK_SHIFT", "0"))
if shift:
    real, clock = datetime.datetime, time.time
    class Shifted(real):
        @classmethod
        def now(cls, tz=None):
            return real.now(tz) + datetime.timedelta(seconds=shift)
    datetime.datetime, time.time = Shifted, lambda: clock() + shift
"""


@pytest.mark.parametrize(("who", "shift"), [("worker", 10800), ("worker", -1800), ("client", 10800), ("client", -1800)])
def test_a_wrong_clock_is_named_and_nothing_is_done(made, monkeypatch, who, shift):
    scene = made({"h0": "berlin"}, ssh=False)
    (scene.folder / "wrong").mkdir()
    (scene.folder / "wrong/sitecustomize.py").write_text(WRONG)
    monkeypatch.setenv("PYTHONPATH", str(scene.folder / "wrong"))
    monkeypatch.setenv("CLOCK_SHIFT", str(shift if who == "worker" else 0))
    scene.worker("berlin")
    monkeypatch.setenv("CLOCK_SHIFT", str(shift if who == "client" else 0))
    said = ended(scene.start("--yes"))
    words = (
        f"its clock is {'3 h' if shift > 0 else '30 min'} {'ahead of' if shift > 0 else 'behind'} that of PostgreSQL"
    )
    assert words in (said.host("h0")["error"] if who == "worker" else said.err)
    assert scene.marks() == {}
