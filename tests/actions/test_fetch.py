"""fetch: a file, or what a command prints, as a file of the record: bounded, whole or not at all, and never a secret."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import subprocess
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.files import fetch
from runbook.onhost.fetched_output import fetch_file, unpacked
from runbook.records.fetched_files import FetchedFiles
from runbook.records.private_folder import PrivateFolder
from runbook.secrets.masking import masking
from runbook.values.command import Completed
from runbook.values.kept_file import Fetched, Keep, NotKept
from runbook.values.plan import Blocked, Change, Skip
from tests.support.another_user import directory, give, ground
from tests.support.probe_driver import SHELLS, drive
from tests.support.real_processes import each
from tests.support.run_step import Taken, take
from tests.support.tables import every_row

__all__ = ["ground"]

TOOLS = [
    *("cat", "tail", "head", "dd", "wc", "id", "ls", "tr", "sed", "od", "readlink", "env", "pwd", "stat", "true"),
    *("gzip", "base64", "timeout"),
]
"""What a host has, of which some may be missing."""

SECRET = "correct-horse-battery"


@pytest.fixture
def files(tmp_path: Path) -> FetchedFiles:
    return FetchedFiles(PrivateFolder(tmp_path / "runs"), "r", masking([SECRET]))


def fetched(files: FetchedFiles, **args) -> Taken:
    return take("fetch", args, files=files)


def content(files: FetchedFiles, taken: Taken) -> bytes:
    (kept,) = taken.result.kept
    path = Path(files.where) / kept.path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (len(path.read_bytes()), sha256(path.read_bytes()).hexdigest()) == (kept.size, kept.sha256)
    return path.read_bytes()


@pytest.mark.parametrize(
    "written",
    [b"", b"one\ntwo\n", "ä without a line end".encode(), bytes(range(256)) * 40, b"\xff\xfe half a character"],
)
def test_a_file_arrives_as_it_is(files, tmp_path, written):
    (tmp_path / "it.bin").write_bytes(written)
    taken = fetched(files, file=str(tmp_path / "it.bin"))
    assert (taken.status, taken.writes, taken.result.verified) == ("changed", [], True)
    assert content(files, taken) == written


def test_a_dry_run_says_what_would_be_fetched_and_its_plan_has_no_content(files, tmp_path):
    (tmp_path / "log").write_text("x" * 5000)
    taken = fetched(files, file=str(tmp_path / "log"), most="1KiB", save_as="end.log")
    assert taken.planned.status.value == "would_change"
    assert taken.planned.why == f"fetch {tmp_path}/log into end.log, the last 1.0 KiB"
    assert "xxx" not in str(taken.planned)


@pytest.mark.parametrize(("part", "kept"), [("end", b"345\n"), ("beginning", b"0123")])
def test_what_is_larger_is_cut_and_said(files, tmp_path, part, kept):
    (tmp_path / "log").write_text("012345\n")
    for args in ({"file": str(tmp_path / "log")}, {"argv": ["cat", str(tmp_path / "log")]}):
        taken = fetched(files, **args, most=4, part=part)
        assert content(files, taken) == kept
        assert "cut, there is more on the host" in taken.why
    whole = fetched(files, file=str(tmp_path / "log"), most=7, part=part)
    assert (content(files, whole), whole.result.kept[0].cut) == (b"012345\n", False)


def test_how_a_command_ended_is_said_and_both_streams_are_kept(files):
    taken = fetched(files, argv=["sh", "-c", "echo out; echo err >&2; exit 9"], save_as="x")
    assert (taken.status, content(files, taken)) == ("changed", b"out\nerr\n")
    assert "exit code 9" in taken.why


def test_a_command_has_its_own_time_and_what_it_said_until_then_is_kept(files):
    taken = fetched(files, argv=["sh", "-c", "echo begun; sleep 60"], at_most_for="1s", save_as="x")
    assert (taken.status, content(files, taken)) == ("changed", b"begun\n")
    assert "its time was up" in taken.why
    assert taken.result.seconds < 20


def test_secrets_of_the_run_and_what_looks_like_one_are_not_in_the_file(files, tmp_path):
    text = f"a {SECRET} b\nAPI_TOKEN=abcdef0123456789\npassword: hunter2-hunter2\nplain: 7\n"
    (tmp_path / "log").write_text(text)
    taken = fetched(files, file=str(tmp_path / "log"))
    assert content(files, taken) == b"a *** b\nAPI_TOKEN=***\npassword: ***\nplain: 7\n"
    assert "secrets masked" in taken.why
    assert SECRET not in str(taken.result)


def test_what_is_not_there_is_skipped(files, tmp_path):
    absent = fetched(files, file=str(tmp_path / "none"))
    assert (absent.status, absent.why) == ("skipped", f"this host has no {tmp_path}/none")
    missing = fetched(files, argv=["ipmitool-of-nobody", "sel"])
    assert (missing.status, missing.why) == ("skipped", "ipmitool-of-nobody is not installed here")
    needed = fetched(files, argv=["sh", "-c", "x"], needs=["cat", "docker-of-nobody"])
    assert (needed.status, needed.why) == ("skipped", "docker-of-nobody is not installed here")


@pytest.mark.parametrize("kind", ["directory", "fifo", "device"])
def test_what_is_no_regular_file_is_not_read(files, tmp_path, kind):
    path = {"directory": tmp_path, "fifo": tmp_path / "fifo", "device": Path("/dev/zero")}[kind]
    if kind == "fifo":
        os.mkfifo(path)
    taken = fetched(files, file=str(path), save_as="x")
    assert taken.status == "blocked"
    assert "is not a regular file" in taken.why


def test_a_program_with_a_directory_of_its_own_leaves_none(files):
    before = set(os.listdir("/var/tmp"))
    taken = fetched(files, argv=["sh", "-c", "echo x >it; pwd; ls"], own_directory=True, save_as="x")
    place, name = content(files, taken).decode().split()
    assert (name, Path(place).parent, Path(place).exists()) == ("it", Path("/var/tmp"), False)
    assert {it for it in set(os.listdir("/var/tmp")) - before if it.startswith(".runbook")} == set()


def test_without_a_record_nothing_is_fetched(tmp_path):
    (tmp_path / "log").write_text("x")
    taken = take("fetch", {"file": str(tmp_path / "log")})
    assert (taken.status, "--no-record" in taken.why) == ("blocked", True)


def test_a_file_that_goes_meanwhile_is_said_and_nothing_is_kept(files, tmp_path):
    log = tmp_path / "log"
    log.write_text("x")
    taken = take("fetch", {"file": str(log)}, files=files, between=log.unlink)
    assert taken.status == "skipped"
    assert not Path(files.where).exists()


@pytest.mark.parametrize("shell", each(SHELLS))
@pytest.mark.parametrize("lacks", [(), ("gzip",), ("base64",), ("gzip", "base64"), ("timeout",)])
def test_it_comes_whole_in_every_shell_and_without_the_tools_that_a_host_may_lack(tmp_path, shell, lacks):
    bare = tmp_path / "bin"
    bare.mkdir()
    for tool in set(TOOLS) - set(lacks):
        (bare / tool).symlink_to(shutil.which(tool))
    (tmp_path / "it").write_bytes(bytes(range(256)) * 20)
    keep = Keep(name="it", most=100_000)
    words = (shutil.which(SHELLS[shell][0]), *SHELLS[shell][1:])
    command = fetch_file(str(tmp_path / "it"), keep)
    argv = (*words, "-c", command.script, "sh", *command.argv)
    done = subprocess.run(argv, capture_output=True, env={"PATH": str(bare)}, text=True, timeout=60)
    answer = Completed(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)
    assert unpacked(answer, keep, ran=False) == Fetched(content=bytes(range(256)) * 20)


@pytest.mark.real("root", "setpriv")
def test_root_fetches_nothing_that_another_user_leads_it_to(files, ground):
    """Mutant: ``cat "$3"`` in place of ``view_find``."""
    theirs, shadow = give(directory(ground / "theirs")), ground / "shadow"
    shadow.write_text("root:hash\n")
    shadow.chmod(0o600)
    (theirs / "log").symlink_to(shadow)
    give(theirs / "log")
    taken = fetched(files, file=str(theirs / "log"))
    assert (taken.status, taken.result.kept) == ("blocked", ())
    assert "not everybody may read" in taken.why


GOOD = "H4sIAAAAAAAAA0vOSMzLS1UoSS0uUchPTynN50rPzCtJLeJKAwCTs5ZFGAAAAA=="


@every_row(
    ("said", "why"),
    [
        ("", "did not send the whole"),
        (GOOD, "did not send the whole"),
        (f"{GOOD}\n=end 0 yes", "did not send the whole"),
        (f"{GOOD[:40]}\n=end 0 yes yes\n", "ends too early"),
        (f"{GOOD[:41]}\n=end 0 yes yes\n", "cannot be unpacked"),
        ("no base64 !\n=end 0 yes yes\n", "cannot be unpacked"),
        ("aGFsbG8=\n=end 0 yes yes\n", "cannot be unpacked"),
        ("xyz\n=end 0 no no\n", "cannot be unpacked"),
    ],
)
def test_half_an_answer_is_never_taken_for_a_file(said, why):
    result = unpacked(Completed(exit_code=0, stdout=said), Keep(name="x", most=100), ran=False)
    assert isinstance(result, NotKept)
    assert why in result.why


def test_a_bomb_is_unpacked_no_further_than_is_kept():
    bomb = b64encode(gzip.compress(b"0" * 50_000_000)).decode()
    found = unpacked(Completed(exit_code=0, stdout=f"{bomb}\n=end 0 yes yes\n"), Keep(name="x", most=10), ran=False)
    assert found == Fetched(content=b"0" * 10, cut=True)


def test_an_output_that_did_not_fit_is_not_kept():
    answer = Completed(exit_code=0, stdout="x\n=end 0 no yes\n", missing=(5, 0))
    assert isinstance(unpacked(answer, Keep(name="x", most=10), ran=False), NotKept)


@every_row(
    ("args", "word"),
    [
        ({}, "one of `file` and `argv`"),
        ({"file": "/a", "argv": ["b"]}, "one of `file` and `argv`"),
        ({"file": "etc/passwd"}, "not an absolute path"),
        ({"file": "/a", "save_as": "../b"}, "save_as"),
        ({"file": "/a", "save_as": ".hidden"}, "save_as"),
        ({"file": "/a", "save_as": "a/b"}, "save_as"),
        ({"file": "/a", "own_directory": True}, "own_directory"),
        ({"file": "/a", "needs": ["b"]}, "needs"),
        ({"file": "/a", "most": "9MiB"}, "most"),
        ({"file": "/a", "most": 0}, "most"),
        ({"argv": [""]}, "empty"),
    ],
)
def test_a_mistake_in_a_playbook_is_refused(args, word):
    with pytest.raises(ConfigError, match=word):
        build(fetch.Args, args)


def test_a_program_that_is_known_to_change_things_is_refused():
    assert "`rm` does" in fetch.objection(build(fetch.Args, {"argv": ["rm", "-rf", "/x"]}))
    assert fetch.objection(build(fetch.Args, {"argv": ["dmesg", "-T"]})) == ""
    assert "dmesg" in fetch.objection(build(fetch.Args, {"argv": ["dmesg", "-C"]}))


class Saying:
    def __init__(self, stdout, code=0):
        self.answer = Completed(exit_code=code, stdout=stdout)

    def run(self, *commands):
        return (self.answer,) * len(commands)


@every_row(
    ("said", "kind"), [("absent\n", Skip), ("there 5\n", Change), ("there\n", Change), ("refused\nno\nann\n", Blocked)]
)
def test_what_is_decided_rests_on_what_the_host_says(said, kind):
    args = build(fetch.Args, {"file": "/var/log/x"})
    assert isinstance(fetch.decide(args, drive(fetch.probe(args), Saying(said))), kind)


@every_row(("said", "code"), [("", 0), ("there 5", 2), ("", None)])
@every_row("args", [{"file": "/var/log/x"}, {"argv": ["ps"], "needs": ["cat"]}])
def test_a_host_that_does_not_say_is_unknown(args, said, code):
    with pytest.raises(ProbeError, match="cannot be"):
        drive(fetch.probe(build(fetch.Args, args)), Saying(said, code))
