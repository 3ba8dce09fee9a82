"""Removing what Docker no longer needs, on a real engine: by id, nothing forced, and nobody else's."""

from __future__ import annotations

import json
import re
import time

import pytest

from runbook.codec import to_json
from runbook.library.docker import docker_prune
from runbook.library.docker.docker_prune import Args, Labels, removal_script
from runbook.library.docker.docker_prune.removal_script import SEEN
from runbook.library.docker.facts import engine as docker
from runbook.protocols import Action
from runbook.values.command import Effect
from runbook.values.plan import Blocked, Change, NoChange, Risk
from runbook.values.types import Duration, Unknown
from tests.support.probe_driver import drive
from tests.support.real_processes import Machine, each

pytestmark = [pytest.mark.real("docker")]
ALL = {"older_than": Duration(0), "keep_dead": 0, "images": "unused"}


def looked(engine, machine=None, **args):
    made = Args(**{**ALL, **args})
    return made, drive(docker_prune.probe(made), machine or engine.machine())


def planned(engine, machine=None, **args):
    made, state = looked(engine, machine, **args)
    return docker_prune.decide(made, state)


def done(engine, change, machine=None):
    """What the removal printed."""
    answers = [(machine or engine.machine()).run(it)[0] for it in change.commands]
    assert [it.exit_code for it in answers] == [0] * len(answers), answers
    return "".join(it.stdout for it in answers)


def available(engine):
    import os

    found = os.statvfs(engine.root)
    return found.f_bavail * found.f_frsize


def write(megabytes):
    return "sh", "-c", f"dd if=/dev/zero of=/q bs=1000000 count={megabytes} 2>/dev/null"


def test_a_plan_lists_every_id_name_size_and_the_sum_and_sends_nothing(engine):
    dead = engine.dies(*write(3), name="old-job")
    key = engine.inspect(dead, "{{.Id}}")
    made, state = looked(engine)
    change = docker_prune.decide(made, state)
    assert isinstance(change, Change)
    assert change.risk is Risk.DELETES_DATA
    assert f"container {key} old-job (exited" in change.diff
    assert "3 MB" in change.diff
    life = engine.inspect(dead, SEEN["container"]).replace(" ", ":")
    assert [it.key for it in change.targets if it.kind == "container"] == [f"{key}:{life}"]
    assert f"{state.reclaimable} bytes" in change.summary
    assert state.reclaimable == 3_000_000 + int(engine("image", "inspect", "--format", "{{.Size}}", "base:1"))
    assert state.exact
    assert engine.names() == {"old-job"}
    assert key in " ".join(change.commands[0].argv)
    assert not re.search(r"docker (system|container|image|volume) prune|rm -f", change.commands[0].script)


@pytest.mark.parametrize("name", each(["dash", "bash", "busybox", "only busybox"]))
def test_what_runs_is_paused_or_restarts_survives_with_its_image_and_every_volume(engine, name, tmp_path):
    own = {
        it: engine.import_image(f"{it}:1", f"LABEL of={it}")
        for it in ("running", "paused", "restarting", "dead", "nobody")
    }
    engine.lives(name="runs", image="running:1")
    engine("pause", engine.lives("-v", "precious:/data", name="rests", image="paused:1"))
    engine("run", "-d", "--name", "again", "--network", "none", "--restart", "always", "restarting:1", "false")
    engine.dies(name="gone", options=("-v", "/scratch", "-v", "kept:/data"), image="dead:1")
    volumes = {*engine("volume", "ls", "-q").split()}
    machine = engine.machine(*{"busybox": ("busybox", "sh"), "only busybox": ("sh",)}.get(name, (name,)))
    if name == "only busybox":
        machine = only_busybox(engine, tmp_path)
    change = planned(engine, machine)
    done(engine, change, machine)
    assert engine.names() == {"runs", "rests", "again"}
    assert engine.images() == {engine.base, own["running"], own["paused"], own["restarting"]} - {engine.base}
    assert {*engine("volume", "ls", "-q").split()} == volumes
    assert len(volumes) == 3
    engine("unpause", "rests")
    again = planned(engine, machine)
    assert isinstance(again, NoChange), again


def only_busybox(engine, folder) -> Machine:
    """A host whose small tools are all busybox's."""
    import subprocess

    (folder / "tools").mkdir()
    subprocess.run(["busybox", "--install", "-s", str(folder / "tools")], check=True)
    before = ("env", "-i", f"DOCKER_HOST={engine.host}", f"PATH={folder}/tools")
    return Machine(shell=(str(folder / "tools/sh"),), before=before)


def bytes_of(text):
    return docker.bytes_of(text.partition(" ")[0])


def usage(engine):
    """Bytes that `docker system df` counts, by type."""
    rows = engine("system", "df", "--format", "{{.Type}}={{.Size}}").splitlines()
    return {name: bytes_of(size) for name, size in (it.split("=") for it in rows)}


def near(found, wanted, metadata=1_000_000):
    """Blocks are whole, directories and journals count: a disk frees a little more than files have bytes."""
    return wanted - 100_000 <= found <= wanted + metadata


@pytest.mark.soak
def test_the_claimed_bytes_agree_with_docker_and_with_the_disk(engine):
    for number in range(3):
        engine.dies(*write(5), name=f"old{number}")
    engine.dies("seq", "1", "100000", name="chatty")
    engine.build("a:1", "dd if=/dev/urandom of=/a bs=1000000 count=4")
    engine.build("b:1", "dd if=/dev/urandom of=/b bs=1000000 count=6", kit=True)
    engine.dies(image="b:1")
    before, room = usage(engine), available(engine)
    made, state = looked(engine)
    change = docker_prune.decide(made, state)
    printed = done(engine, change)
    after, room = usage(engine), available(engine) - room
    logs = sum(it.logs for it in state.dead)
    assert logs > 5_000_000
    assert state.exact
    assert near(room, state.reclaimable), (room, state.reclaimable)
    assert abs(sum(before.values()) - sum(after.values()) - (state.reclaimable - logs)) < 20_000, (before, after)
    assert near(int(re.search(r"freed (\d+)", printed)[1]), state.reclaimable)


@pytest.mark.soak
def test_a_layer_that_several_images_share_is_counted_once_and_not_at_all_while_one_of_them_stays(engine):
    base = engine.import_image("big:1", megabytes=8)
    for name, size in (("x", 2), ("y", 3), ("z", 4)):
        engine("tag", base, "base:1")
        engine.build(f"{name}:1", f"dd if=/dev/urandom of=/{name} bs=1000000 count={size}", "mkdir /empty")
    engine("rmi", "big:1")
    keeper = engine.lives(image="z:1")
    room = available(engine)
    made, state = looked(engine, what=("images",))
    tiny = int(engine("image", "inspect", "--format", "{{.Size}}", engine.base)) if engine.base != base else 0
    assert state.reclaimable == 5_000_000 + tiny
    done(engine, docker_prune.decide(made, state))
    assert near(available(engine) - room, state.reclaimable)
    engine("rm", "-f", keeper)
    whole = int(engine("image", "inspect", "--format", "{{.Size}}", "z:1"))
    room = available(engine)
    made, state = looked(engine, what=("images",))
    assert state.reclaimable == whole
    assert state.exact
    done(engine, docker_prune.decide(made, state))
    assert near(available(engine) - room, whole)


@pytest.mark.soak
def test_layers_that_the_build_cache_holds_are_no_promise(engine):
    engine.build("k:1", "dd if=/dev/urandom of=/k bs=1000000 count=6", kit=True)
    made, state = looked(engine, what=("images",))
    change = docker_prune.decide(made, state)
    assert not state.exact
    assert "up to" in change.summary
    room = available(engine)
    done(engine, change)
    assert available(engine) - room < 3_000_000, "the cache has the layer still"
    made, state = looked(engine, what=("build_cache",))
    assert state.reclaimable >= 6_000_000
    change = docker_prune.decide(made, state)
    done(engine, change)
    assert available(engine) - room > 5_900_000
    assert isinstance(planned(engine, what=("build_cache",)), NoChange)


def test_build_cache_is_removed_record_by_record_as_listed_and_what_came_later_stays(engine):
    def records():
        return {*engine("system", "df", "-v", "--format", "{{range .BuildCache}}{{.ID}} {{end}}").split()}

    engine.build("", "echo one >/one", kit=True)
    engine("rmi", "-f", *(engine.images() - {engine.base}))
    change = planned(engine, what=("build_cache",))
    listed, before = {it.key for it in change.targets}, records()
    engine.build("", "echo two >/two", kit=True)
    engine("rmi", "-f", *(engine.images() - {engine.base}))
    later = records() - before
    assert later
    printed = done(engine, change)
    assert {*re.findall(r"removed build-cache (\S+)", printed)} == listed
    assert records() == (before - listed) | later


def test_a_parent_that_the_plan_does_not_show_stays_when_its_child_goes(engine):
    child = engine.build("top:1", "echo 1 >/1", "echo 2 >/2")
    (parent,) = engine.images() - {engine.base, child}
    made, state = looked(engine, what=("images",))
    less = docker_prune.without(state, frozenset({parent}))
    assert child in {it.id for it in less.images}
    done(engine, docker_prune.decide(made, less))
    assert engine.images() == {engine.base, parent}


@pytest.mark.soak
def test_the_last_that_died_are_kept_as_evidence_not_the_last_that_were_made(engine):
    engine("create", "--name", "slow", "--network", "none", "base:1", "true")
    for name in ("one", "two", "three"):
        engine.dies(name=name)
    engine("start", "-a", "slow")
    change = planned(engine, keep_dead=2, what=("containers",))
    done(engine, change)
    assert engine.names() == {"three", "slow"}
    last = planned(engine, keep_dead=2, what=("containers",))
    assert isinstance(last, NoChange)
    assert "kept as evidence" in last.why
    assert "slow" in last.why


@pytest.mark.soak
def test_by_default_three_stay_and_so_do_their_images(engine):
    image = engine.import_image("evidence:1", "LABEL e=1")
    for number in range(3):
        engine.dies(name=f"e{number}", image="evidence:1")
    made = Args(older_than=Duration(0), images="unused")
    state = drive(docker_prune.probe(made), engine.machine())
    assert state.dead == ()
    assert image not in {it.id for it in state.images}
    assert len(state.kept) == 3


def test_what_died_or_was_made_lately_stays(engine):
    engine.dies()
    engine.build("", "echo x >/x")
    made, state = looked(engine, older_than=Duration(60))
    assert (state.dead, state.images, state.reclaimable) == ((), (), 0)
    assert "older_than: 60 s" in state.kept[0]
    assert isinstance(docker_prune.decide(made, state), NoChange)


@pytest.mark.soak
def test_a_stopped_service_stays_unless_told_otherwise(engine):
    name = engine.lives("--restart", "unless-stopped")
    engine("stop", "-t", "0", name)
    made, state = looked(engine, what=("containers",))
    assert isinstance(docker_prune.decide(made, state), NoChange)
    assert "restart policy unless-stopped" in state.kept[0]
    assert isinstance(planned(engine, what=("containers",), stopped_services="remove"), Change)


def test_a_container_that_was_started_since_the_look_is_left_alone_and_named_and_its_image_stays(engine):
    image = engine.import_image("i:1", "LABEL i=1")
    engine("create", "--name", "back", "--network", "none", "i:1", "sleep", "900")
    engine.dies(name="again", image="base:1")
    engine.dies(name="still", image="base:1")
    made, state = looked(engine)
    change = docker_prune.decide(made, state)
    engine("start", "back")
    engine("start", "-a", "again")
    printed = done(engine, change)
    assert engine.names() == {"back", "again"}
    assert image in engine.images()
    keys = {name: engine.inspect(name, "{{.Id}}") for name in ("back", "again")}
    for key in keys.values():
        assert f"left container {key}: it has changed since it was inspected" in printed
    assert f"left image {image}" in printed
    after = looked(engine)[1]
    assert docker_prune.settled(made, state, after), "what has been started since is another thing"


def test_an_image_that_got_another_name_since_the_look_is_left_alone(engine):
    image = engine.build("", "echo x >/x")
    change = planned(engine, what=("images",), images="dangling")
    engine("tag", image, "mine:1")
    assert f"left image {image}: it has changed" in done(engine, change)
    assert image in engine.images()


@pytest.mark.soak
def test_an_image_with_names_in_several_repositories_goes_with_all_of_them(engine):
    image = engine.import_image("a:1", "LABEL a=1")
    for name in ("a:2", "other.example/b:1"):
        engine("tag", image, name)
    printed = done(engine, planned(engine, what=("images",)))
    assert f"removed image {image}" in printed
    assert image not in engine.images()


@pytest.mark.soak
def test_images_that_others_were_built_from_stay_while_those_are_used(engine):
    top = engine.build("top:1", "echo 1 >/1", "echo 2 >/2")
    chain = engine.images()
    assert len(chain) == 3
    engine.lives(image="top:1")
    assert isinstance(planned(engine, what=("images",)), NoChange)
    assert isinstance(planned(engine, what=("images",), images="dangling"), NoChange)
    assert engine.images() == chain
    assert top in chain


@pytest.mark.soak
def test_an_image_in_use_stays_when_its_name_has_gone_to_another(engine):
    old = engine.import_image("job:1", "LABEL v=1")
    engine.lives(image="job:1")
    new = engine.import_image("job:1", "LABEL v=2")
    change = planned(engine, what=("images",))
    assert {old, new} & {it.key for it in change.targets} == set()
    assert isinstance(planned(engine, what=("images",), images="dangling"), NoChange)


@pytest.mark.soak
def test_labels_choose_and_spare(engine):
    odd = 'owner=a b\'s "c"'
    engine.dies(name="mine", options=("--label", "run=7"))
    engine.dies(name="both", options=("--label", "run=7", "--label", odd))
    engine.dies(name="other", options=("--label", "run=8"))
    engine.dies(name="none")
    done(engine, planned(engine, labels=Labels(only=("run=7",), keep=(odd,))))
    assert engine.names() == {"both", "other", "none"}
    assert engine.base in engine.images()
    done(engine, planned(engine, labels=Labels(keep=("run",)), what=("containers",)))
    assert engine.names() == {"both", "other"}
    assert isinstance(planned(engine, labels=Labels(only=("run", "nothing has this"))), NoChange)


def test_volumes_go_only_when_asked_for_and_never_while_a_container_that_stays_mounts_them(engine):
    engine("volume", "create", "named")
    engine("volume", "create", "--label", "keep", "spared")
    engine.dies(name="dead", options=("-v", "/anonymous"))
    engine("create", "--name", "made", "-v", "used:/data", "base:1", "true")
    before = {*engine("volume", "ls", "-q").split()}
    (anonymous,) = before - {"named", "spared", "used"}
    assert all(it.kind != "volume" for it in planned(engine).targets)
    one = {"labels": Labels(keep=("keep",)), "keep_dead": 1, "what": ("containers", "volumes")}
    done(engine, planned(engine, **one))
    assert {*engine("volume", "ls", "-q").split()} == before - {anonymous}
    change = planned(engine, **one, volumes="all")
    assert [it.key for it in change.targets] == ["named"]
    done(engine, change)
    assert {*engine("volume", "ls", "-q").split()} == {"spared", "used"}


def test_a_volume_that_was_made_anew_since_the_look_is_left_alone(engine):
    engine("volume", "create", "data")
    change = planned(engine, what=("volumes",), volumes="all")
    engine("volume", "rm", "data")
    time.sleep(1.1)  # noqa: TID251 the engine tells when a volume was made in whole seconds
    engine("volume", "create", "data")
    assert "left volume data: it has changed" in done(engine, change)
    assert engine("volume", "ls", "-q") == "data"


@pytest.mark.soak
def test_two_at_once_do_not_trip_over_each_other(engine):
    for _ in range(4):
        engine.dies()
    made, state = looked(engine)
    change = docker_prune.decide(made, state)
    first = done(engine, change)
    second = done(engine, change)
    assert first.count("removed container") == second.count("gone container") == 4
    assert "left" not in second
    assert docker_prune.settled(made, state, looked(engine)[1])


def test_what_will_not_go_is_named_by_the_second_look(engine):
    engine.dies(name="stuck")
    made, state = looked(engine, what=("containers",))
    assert not docker_prune.settled(made, state, state)
    assert "stuck" in docker_prune.explain(made, state, state)


def test_without_leaves_out_a_container_and_the_image_that_it_needs(engine):
    engine.import_image("i:1", "LABEL i=1")
    engine.dies(name="new", image="i:1")
    engine.dies(name="old")
    made, state = looked(engine)
    (new,) = [it.key for it in state.dead if it.name == "new"]
    less = docker_prune.without(state, frozenset({new}))
    assert [it.name for it in less.dead] == ["old"]
    assert "i:1" not in {it.name for it in less.images}
    assert docker_prune.decide(made, less).summary.count("up to") == 1


@pytest.mark.soak
def test_many_go_in_several_commands(engine, monkeypatch):
    monkeypatch.setattr(removal_script, "AT_ONCE", 2)
    for _ in range(3):
        engine.dies()
    change = planned(engine, what=("containers",))
    assert len(change.commands) == 2
    done(engine, change)
    assert engine.names() == set()


def test_looks_only_read_and_the_state_survives_json(engine):
    machine = engine.machine()
    engine.dies()
    _, state = looked(engine, machine, what=("containers", "images", "build_cache", "volumes"))
    assert {it.effect for it in machine.sent} == {Effect.READ}
    assert json.loads(json.dumps(to_json(state))) == to_json(state)
    assert state.df.path == str(engine.root)
    assert 0 < state.df.used_percent < 100


def test_secrets_in_the_environment_and_on_command_lines_are_not_asked_for(engine):
    machine = engine.machine()
    engine.dies("echo", "s3cret-argument", options=("-e", "TOKEN=s3cret-value", "--label", "l=s3cret-label"))
    answers = []
    run = machine.run
    machine.run = lambda *commands: answers.extend(run(*commands)) or tuple(answers[-len(commands) :])
    looked(engine, machine)
    assert not any("s3cret" in it.stdout + it.stderr for it in answers)


def test_a_record_that_cannot_be_counted_blocks_only_what_rests_on_it(engine):
    _, state = looked(engine, what=("build_cache",))
    blind = docker_prune._without_sight(Args(), state, Unknown(why="it hangs"))
    made = Args(what=("build_cache",))
    assert isinstance(
        docker_prune.decide(made, docker_prune._without_sight(made, state, Unknown(why="it hangs"))), Blocked
    )
    assert isinstance(blind.reclaimable, Unknown)
    assert isinstance(blind.build_cache, Unknown)


def test_it_keeps_the_protocol():
    assert Action.of(docker_prune).summary.endswith(".")
    assert all("system prune" not in it for it in docker_prune.by_hand(Args(what=("containers", "volumes"))))
