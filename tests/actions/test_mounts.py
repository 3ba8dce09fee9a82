"""What is mounted, and whether it answers: real mounts, and a real server (FUSE) that stops answering."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runbook.codec import to_json
from runbook.errors import ProbeError
from runbook.language.arguments import build
from runbook.library.files import mounts
from runbook.library.files.facts.mounts import ask_answers, read_answers, read_mounts, worded, worth_asking
from runbook.protocols import Fails, Holds
from runbook.values.command import Completed, Effect
from runbook.values.types import Unknown
from tests.support.probe_driver import drive
from tests.support.real_processes import SHELLS, Machine, each, shell
from tests.support.tables import every_row
from tests.support.waiting import until

shells = pytest.mark.parametrize("named", each(SHELLS))
ROOT = Path(__file__).parents[2]


@dataclass
class Space:
    """A mount namespace of a test's own, with what is mounted in it at `place`."""

    place: Path
    keeper: subprocess.Popen
    servers: list[subprocess.Popen] = field(default_factory=list)

    @property
    def inside(self) -> tuple[str, ...]:
        return ("nsenter", "-t", str(self.keeper.pid), "-m")

    def do(self, line: str) -> None:
        subprocess.run([*self.inside, "sh", "-ec", line, "sh", str(self.place)], check=True)

    def askers(self) -> list[int]:
        """Our processes that hang on a file system of this test."""
        pattern = f"^stat -f -c runbook-mount .* -- {re.escape(str(self.place))}/"
        done = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True)
        return [int(it) for it in done.stdout.split()]

    def serve(self, name: str, kind: str = "fuse.sshfs") -> subprocess.Popen:
        """A file system at *name* that never answers."""
        self.do(f'mkdir "$1"/{shlex.quote(name)}')
        words = (str(self.place / name), kind, "fs.example:/export", str(self.place / "answers"))
        module = (sys.executable, "-m", "runbook.lab.system.file_server", *words)
        server = subprocess.Popen([*self.inside, *module], stdout=subprocess.PIPE, cwd=ROOT, start_new_session=True)
        self.servers.append(server)
        assert server.stdout is not None
        assert server.stdout.readline() == b"up\n"
        return server

    def seen(self, named: str, folder: Path, **values) -> tuple[mounts.State, float, Machine]:
        """What the probe says, how long that took, and how it was asked."""
        here = Machine(shell=shell(named, folder), before=self.inside)
        began = time.monotonic()
        state = drive(mounts.probe(build(mounts.Args, {"only": [f"{self.place}/*"], "within": 1, **values})), here)
        assert {it.effect for it in here.sent} == {Effect.READ}
        return state, time.monotonic() - began, here


@pytest.fixture
def space(tmp_path) -> Iterator[Space]:
    place = tmp_path / "mounts-of-a-test"
    place.mkdir()
    setup = 'mount --make-rprivate /; mount -t tmpfs none "$1"; echo up; exec sleep 600'
    keeper = subprocess.Popen(
        ["unshare", "-m", "sh", "-ec", setup, "sh", str(place)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert keeper.stdout is not None
    assert keeper.stdout.readline() == b"up\n"
    made = Space(place, keeper)
    yield made
    for it in (*made.servers, keeper):
        it.send_signal(signal.SIGCONT)
        it.kill()
        it.wait()
        it.stdout.close()
    until(lambda: not made.askers(), "the end of its server frees anybody who waits for it")


def by_name(state: mounts.State) -> dict[str, object]:
    return {it.target.rpartition("/")[2]: it for it in state.mounts}


@pytest.mark.real("lab")
@shells
def test_names_options_space_and_inodes_are_what_was_mounted(space, tmp_path, named):
    """Mutant: the octal escapes left as they are."""
    space.do(
        'cd "$1"; mkdir "a b" "c\\\\040d" e f; mount -t tmpfs -o size=1m,nr_inodes=50 "the source" "a b"\n'
        'mount -t tmpfs -o ro none "c\\\\040d"; head -c 524288 /dev/zero >"a b/x"; : >e/file\n'
        "mount --bind 'a b' f; mkdir -p 'a b/over'; mount -t tmpfs none 'a b/over'; mount -t tmpfs top e; mount -t tmpfs top e"
    )
    state, _, _ = space.seen(named, tmp_path)
    found = by_name(state)
    blank = found["a b"]
    assert (blank.source, blank.type, blank.answer, blank.read_only, blank.remote) == (
        "the source",
        "tmpfs",
        "ok",
        False,
        False,
    )
    assert (blank.size, blank.avail, blank.percent) == (1048576, 524288, 50.0)
    assert 40 <= blank.inodes_free <= 48
    assert found["f"].size == blank.size, "a bind mount has the answer of its file system"
    assert found["c\\040d"].read_only
    assert state.read_only == (f"{space.place}/c\\040d",)
    lower, upper = [it for it in state.mounts if it.target.endswith("/e")]
    assert (lower.answer, lower.said) == ("not asked", f"it lies hidden under what is mounted at {space.place}/e")
    assert upper.answer == "ok"
    assert (state.hung, state.failed, state.not_known) == ((), (), ())


@pytest.mark.alone  # it times what hangs
@pytest.mark.real("lab", "fuse")
@shells
def test_what_never_answers_is_named_in_time_and_asked_by_one_process_at_most(space, tmp_path, named):
    """Mutants: the search for what hangs already dropped; the process that asks waited for."""
    space.serve("data")
    space.do('mkdir "$1"/well; mount -t tmpfs none "$1"/well; mkdir "$1"/twice; mount --bind "$1"/well "$1"/twice')
    first, spent, _ = space.seen(named, tmp_path)
    assert spent < 60
    (hung,) = first.hung
    assert (hung.target, hung.type, hung.server, hung.remote) == (
        f"{space.place}/data",
        "fuse.sshfs",
        "fs.example",
        True,
    )
    (pid,) = space.askers()
    assert hung.said == f"no answer within 1 s; the stat that asked hangs there and cannot be ended (pid {pid})"
    assert ") D " in Path(f"/proc/{pid}/stat").read_text(), "it is truly one that no signal ends"
    assert by_name(first)["well"].answer == "ok"
    again, _, _ = space.seen(named, tmp_path)
    assert again.hung[0].said.startswith("a stat that an earlier run started hangs there for ")
    assert again.hung[0].said.endswith(f"(pid {pid}), so no other was started")
    assert space.askers() == [pid]
    assert isinstance(mounts.holds(build(mounts.Args, {}), again), Fails)
    space.do('touch "$1"/answers')
    until(lambda: not space.askers())
    back, _, _ = space.seen(named, tmp_path)
    data = by_name(back)["data"]
    assert (data.answer, data.size, data.percent, data.inodes_free) == ("ok", 4 << 30, 50.0, 9000)
    assert isinstance(mounts.holds(build(mounts.Args, {}), back), Holds)


@pytest.mark.alone  # it times what hangs
@pytest.mark.real("lab", "fuse", "dash")
def test_a_stopped_server_leaves_nobody_behind_and_a_dead_one_has_failed(space, tmp_path):
    """What waits for a request that nobody has taken can still be ended, and is."""
    server = space.serve("data")
    os.kill(server.pid, signal.SIGSTOP)
    state, _, _ = space.seen("dash", tmp_path)
    assert [it.said for it in state.hung] == ["no answer within 1 s"]
    assert space.askers() == []
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    dead, _, _ = space.seen("dash", tmp_path)
    assert [it.said for it in dead.failed] == ["Transport endpoint is not connected"]


@pytest.mark.alone  # it times what hangs
@pytest.mark.real("lab", "fuse", "dash")
def test_what_is_mounted_below_one_that_hangs_is_unknown_and_below_a_bind_is_asked_once(space, tmp_path):
    space.serve("data")
    space.do('mkdir "$1"/other; mount --bind "$1"/data "$1"/other')
    state, _, here = space.seen("dash", tmp_path)
    assert [it.target.rpartition("/")[2] for it in state.hung] == ["data", "other"]
    assert state.hung[1].said.endswith(f"(asked at {space.place}/data)")
    assert len(space.askers()) == 1
    assert here.sent[-1].argv[2:].count(f"{space.place}/data") == 1


@pytest.mark.real("lab", "dash")
def test_the_mounts_of_another_process_are_asked_where_that_process_has_them(space, tmp_path):
    space.do('mkdir "$1"/own; mount -t tmpfs -o size=2m none "$1"/own')
    here = Machine(shell=("dash",))
    args = build(mounts.Args, {"only": [f"{space.place}/own"], "pid": space.keeper.pid})
    assert drive(mounts.probe(args), here).mounts[0].size == 2 << 20
    gone = drive(mounts.probe(build(mounts.Args, {"only": [f"{space.place}/own"]})), here)
    assert (gone.mounts, gone.missing) == ((), (f"{space.place}/own",))


@pytest.mark.alone  # it times what hangs
@pytest.mark.real("lab", "fuse", "sshd")
def test_a_connection_is_not_held_open_by_what_hangs(space, tmp_path):
    """Mutant: the streams of the process that asks left open."""
    space.serve("data")
    args = build(mounts.Args, {"only": [f"{space.place}/data"], "within": 1})
    state = drive(mounts.probe(args), Machine(before=space.inside))
    assert [it.answer for it in state.hung] == ["hung"], "an end of the output came while it hangs"
    (pid,) = space.askers()
    links = {it.name: os.readlink(it) for it in Path(f"/proc/{pid}/fd").iterdir()}
    assert links["0"] == "/dev/null"
    assert set(links) == {"0", "1", "2"}


TABLE = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 0:40 / /net rw,relatime - autofs systemd-1 rw,fd=40,pgrp=1,timeout=0,minproto=5
31 22 0:41 /export /mnt/data\\040set rw,relatime shared:9 master:3 - nfs4 nfs-1:/export rw,vers=4.2,hard,addr=10.0.0.1
32 22 0:42 / /mnt/win ro,relatime - cifs //files/share rw,username=op,password=hunter2x,addr=10.0.0.2
33 22 0:43 / /mnt/gone//deleted rw - tmpfs none rw
34 22 0:44 / /sys rw - sysfs sysfs rw
35 22 0:45 / /mnt rw - tmpfs over rw
36 31 0:46 / /mnt/data\\040set/deep rw - tmpfs deep rw
37 35 0:47 / /mnt/new rw - fuse.portal portal rw,user_id=1000
38 35 0:48 / /mnt/shared rw - fuse.rclone of\\012us: rw,user_id=1000,allow_other
"""


def table() -> dict[str, object]:
    return {it.target: it for it in read_mounts(Completed(exit_code=0, stdout=TABLE))}


def test_the_table_is_read_as_proc_5_has_it():
    found = table()
    assert found["/mnt/data set"].server == "nfs-1"
    assert "vers=4.2" in found["/mnt/data set"].options
    assert found["/mnt/win"].server == "files"
    assert found["/mnt/win"].read_only
    assert "hunter2x" not in repr(found)
    assert [it.target for it in found.values() if it.remote] == ["/mnt/data set", "/mnt/win", "/mnt/new", "/mnt/shared"]


@every_row(
    ("target", "why"),
    [
        ("/net", "it mounts something as soon as it is asked (autofs)"),
        ("/sys", "it is the kernel's own"),
        ("/mnt/gone//deleted", "its directory was removed"),
        ("/mnt/data set", "it lies hidden under what is mounted at /mnt"),
        ("/mnt/data set/deep", "it lies hidden under what is mounted at /mnt"),
        ("/mnt/new", ""),
        ("/", ""),
    ],
)
def test_what_a_question_would_change_or_not_reach_is_not_asked(target, why):
    """Mutant: autofs asked as any other."""
    assert (table()[target].answer, table()[target].said) == ("not asked", why)


class Telling:
    """A host with TABLE, whose file systems say *answers*."""

    def __init__(self, answers: Completed) -> None:
        self.answers = answers
        self.asked: tuple[str, ...] = ()

    def run(self, *commands):
        if len(commands[0].argv) == 1:
            return (Completed(exit_code=0, stdout=TABLE),)
        self.asked = commands[0].argv[2::2]
        return (self.answers,)


@every_row(
    ("line", "answer", "said"),
    [
        (
            "said 0:48 stat: cannot read file system information for '/mnt/shared': Stale file handle",
            "failed",
            "Stale file handle",
        ),
        (
            "said 0:48 stat: can't read file system information for '/x': Input/output error",
            "failed",
            "Input/output error",
        ),
        ("said 0:48 stat: cannot read ...: Permission denied", "unknown", "Permission denied"),
        ("said 0:48 runbook-mount 0:48 4096 8 ? 4 9 9", "unknown", "stat printed '4096 8 ? 4 9 9'"),
        ("said 0:48 runbook-mount 0:48 4096 8 4 4 0 0", "ok", ""),
        ("", "unknown", "nothing came back from the process that asked"),
    ],
)
def test_an_answer_is_what_the_file_system_said_and_else_unknown(line, answer, said):
    done = Completed(exit_code=0, stdout=f"{line}\nids 22 30 31 32 33 34 35 36 37 38 \n")
    host = Telling(done)
    state = drive(mounts.probe(build(mounts.Args, {"types": ["fuse.rclone"]})), host)
    assert host.asked == ("0:48",)
    assert [(it.answer, it.said) for it in state.mounts] == [(answer, said)]
    if answer == "ok":
        assert isinstance(state.mounts[0].inodes_free, Unknown)


@every_row(
    ("done", "said"),
    [
        (Completed(exit_code=None, timed_out=True), "did not say in time"),
        (Completed(exit_code=3, stderr="timeout is not on this host"), "timeout is not on this host"),
        (Completed(exit_code=0, stdout="ids 22 30\n"), "it was unmounted meanwhile"),
    ],
)
def test_a_host_that_does_not_say_leaves_them_unknown_and_proves_nothing(done, said):
    """Mutant: unknown taken for well by `holds`."""
    args = build(mounts.Args, {"types": ["fuse.rclone"]})
    state = drive(mounts.probe(args), Telling(done))
    assert [it.target for it in state.not_known] == ["/mnt/shared"]
    assert said in state.not_known[0].said
    with pytest.raises(ProbeError, match=said):
        mounts.holds(args, state)


@every_row(
    "done",
    [
        Completed(exit_code=None, timed_out=True),
        Completed(exit_code=2, stderr="awk: cannot open /proc/self/mountinfo"),
        Completed(exit_code=0),
        Completed(exit_code=0, stdout=TABLE, missing=(5, 0)),
    ],
)
def test_a_table_that_cannot_be_read_is_no_empty_one(done):
    with pytest.raises(ProbeError, match="table of mounts"):
        read_mounts(done)


def test_what_should_be_mounted_and_is_not_fails():
    state = drive(mounts.probe(build(mounts.Args, {"only": ["/data"], "ask": False})), Telling(Completed(exit_code=0)))
    assert state.missing == ("/data",)
    assert mounts.holds(build(mounts.Args, {"only": ["/data"]}), state) == Fails(
        why="nothing of that kind is mounted at /data"
    )


@every_row(
    "said",
    [
        "said 0:47 runbook-mount 0:47 4096 0 0 0 0 0\nids 37 38",
        "said 0:47 stat: cannot read ...: Permission denied\nids 37 38",
        "ids 37 38",
        "ids 38",
    ],
)
def test_what_only_its_user_may_ask_is_no_fault_and_proves_nothing_where_it_is_meant(said):
    """Mutants: a private mount taken for one in order; for one that should have answered, or that should be there."""
    done = Completed(exit_code=0, stdout=f"{said}\nsaid 0:48 runbook-mount 0:48 4096 8 4 4 9 9\n")
    state = drive(mounts.probe(build(mounts.Args, {"types": ["fuse*"]})), Telling(done))
    assert [it.target for it in state.private] == ["/mnt/new"]
    assert (state.hung, state.failed, state.not_known) == ((), (), ())
    with pytest.raises(ProbeError, match="answers only the user"):
        mounts.holds(build(mounts.Args, {"only": ["/mnt/new"]}), state)


def test_many_mounts_of_users_keep_no_server_from_being_asked():
    """Mutant: the order of the table kept."""
    fuse = "".join(f"{at} 1 0:{at} / /u/{at} rw - fuse.sshfs u:/ rw,allow_other\n" for at in range(100, 500))
    nfs = "9 1 0:9 / /mnt/a/long/way/to/it rw - nfs4 nfs-1:/export rw\n"
    asked = worth_asking(read_mounts(Completed(exit_code=0, stdout=fuse + nfs)))
    assert (len(asked), asked[0].server) == (256, "nfs-1")


def test_mounts_of_users_are_asked_last_and_private_ones_beyond_the_limit_are_no_doubt():
    """Mutants: local file systems after the users' own; private ones before those that can be asked."""
    options = {"private": "user_id=1000", "shared": "user_id=1000,allow_other", "root": "user_id=0"}
    lines = [
        *(f"{at} 1 0:{at} / /u/{at} rw - fuse.sshfs u:/ rw,{options['private']}" for at in range(100, 400)),
        f"10 1 0:10 / /a/very/long/way/shared rw - fuse.sshfs u:/ rw,{options['shared']}",
        f"11 1 0:11 / /short rw - fuse.sshfs u:/ rw,{options['root']}",
        "12 1 8:1 / /a/very/long/way/to/local rw - ext4 /dev/sda1 rw",
        "13 1 0:13 / /a/very/long/way/to/nfs rw - nfs4 nfs-1:/export rw",
    ]
    table = read_mounts(Completed(exit_code=0, stdout="\n".join(lines)))
    asked = worth_asking(table)
    assert [it.filesystem for it in asked[:4]] == ["0:13", "0:11", "8:1", "0:10"]
    said = "".join(f"said {it.filesystem} runbook-mount {it.filesystem} 4096 8 4 4 9 9\n" for it in asked)
    ids = " ".join(str(it.number) for it in table)
    found = read_answers(Completed(exit_code=0, stdout=f"{said}ids {ids}\n"), table, asked, 1)
    assert {it.said for it in found if it.answer == "unknown"} == {
        "it answers only the user who mounted it (user_id=1000)"
    }


def test_a_newline_in_a_name_is_written_out_and_the_host_is_asked_with_the_name_that_it_has():
    """Mutants: the names shown as they are; the written name sent to the host."""
    line = r"20 1 0:20 / /mnt/a\012\011b\040c rw - fuse.sshfs u\012srv:/x rw,user_id=0,subtype=\033[2J"
    (mount,) = read_mounts(Completed(exit_code=0, stdout=line))
    assert (mount.target, mount.source, mount.options[-1]) == (r"/mnt/a\n\tb c", r"u\nsrv:/x", r"subtype=\x1b[2J")
    assert worded(mount).say == r"/mnt/a\n\tb c (fuse.sshfs, u\nsrv:/x)"
    assert ask_answers([mount], 0, 1).argv[-1] == "/mnt/a\n\tb c"
    assert "path" not in to_json(mount)
