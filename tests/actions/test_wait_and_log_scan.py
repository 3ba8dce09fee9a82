"""Pauses, notes, waits, and the search of logs."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from runbook.codec import to_json
from runbook.errors import ConfigError, ProbeError
from runbook.execution.executor.verification import verify
from runbook.execution.planner import make_plan
from runbook.language.arguments import build
from runbook.language.loader import load_playbook
from runbook.library.files import log_scan
from runbook.library.flow import note, pause, wait_for
from runbook.plugins import discover
from runbook.values.command import Completed, Effect
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here, Meanwhile, drive
from tests.support.real_processes import each
from tests.support.tables import every_row
from tests.support.toy_actions import ToyHost, site, with_run

shells = pytest.mark.parametrize("shell", each(SHELLS))


def test_a_pause_sleeps_on_the_host_and_its_own_time_does_not_end_it():
    here, made = Here(), build(pause.Args, {"seconds": "200ms"})
    began = time.monotonic()
    assert drive(pause.probe(made), here).seconds == 0.2
    assert time.monotonic() - began >= 0.2
    assert (here.sent[0].effect, here.sent[0].timeout) == (Effect.READ, 10.2)
    assert pause.waits(made) == "wait 0.2 s"


def test_a_note_asks_nothing_and_says_its_words():
    here, made = Here(), build(note.Args, {"text": "Stop the pod.\n"})
    assert drive(note.probe(made), here).text == "Stop the pod.\n"
    assert (here.sent, note.waits(made)) == ([], "Stop the pod.")


def waited(shell="dash", act='command sleep "$1"', **values):
    made = build(wait_for.Args, {"at_most": "1s", "every": "100ms", **values})
    here = Meanwhile(shell=SHELLS[shell], act=act)
    state = drive(wait_for.probe(made), here)
    assert here.sent[0].effect is Effect.READ
    return state


@shells
def test_a_path_that_appears_ends_the_wait(tmp_path, shell):
    place = tmp_path / "it's here"
    state = waited(shell, f'command sleep 0.2; : >"{place}"', path=str(place), at_most="50s")
    assert 0.2 < state.waited < 50


@shells
def test_a_path_that_stays_is_told_when_time_is_up(tmp_path, shell):
    with pytest.raises(ProbeError, match=f"{tmp_path} is gone: not the case after 1 s"):
        waited(shell, path=str(tmp_path), gone=True)
    assert waited(shell, path=str(tmp_path / "no"), gone=True)


def test_a_dangling_link_is_there(tmp_path):
    (tmp_path / "link").symlink_to("/nowhere")
    assert waited(path=str(tmp_path / "link"))


@shells
@pytest.mark.parametrize(
    ("family", "address"),
    [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1"), (socket.AF_INET6, "::")],
)
def test_a_port_that_is_listened_on_ends_the_wait(shell, family, address):
    with contextlib.closing(socket.socket(family)) as listener:
        try:
            listener.bind((address, 0))
        except OSError:
            pytest.skip(f"this machine has no {address}")
        port = listener.getsockname()[1]
        with pytest.raises(ProbeError, match=f"something listens on localhost:{port}"):
            waited(shell, port=port, at_most=0)
        listener.listen()
        assert waited(shell, port=port)
        with pytest.raises(ProbeError):
            waited(shell, port=port, gone=True, at_most=0)
    assert waited(shell, port=port, gone=True)


def test_a_port_that_is_only_connected_from_is_not_listened_on():
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        port = client.getsockname()[1]
        assert waited(port=port, gone=True, at_most=0)


@every_row("values", [{}, {"path": "/x", "port": 5}, {"path": "x"}, {"port": 70000}, {"path": "/x", "every": 0}])
def test_a_wait_for_nothing_or_for_two_things_is_refused(values):
    with pytest.raises(ConfigError):
        build(wait_for.Args, values)


def test_a_wait_is_told_in_words():
    assert wait_for.waits(build(wait_for.Args, {"path": "/x"})) == "wait until /x exists, at most 60 s"
    assert wait_for.waits(build(wait_for.Args, {"port": 80, "gone": True})) == (
        "wait until nothing listens on localhost:80, at most 60 s"
    )


SIGNATURES = {"busy": r"busy or unavailable", "oom": r"CUDA out of memory"}


def scanned(*files, shell="dash", env=None, **values):
    made = build(log_scan.Args, {"signatures": SIGNATURES, "files": [str(it) for it in files], **values})
    return drive(log_scan.probe(made), Here(shell=SHELLS[shell]))


@shells
def test_signatures_are_found_with_file_line_and_text(tmp_path, shell):
    (tmp_path / "a b.log").write_bytes(b"one\r\nCUDA error: busy or unavailable\r\nlast \xff line")
    (tmp_path / "c.log").write_text("nothing\n")
    state = scanned(tmp_path / "*.log", tmp_path / "c.log", tmp_path / "none*", shell=shell)
    assert [(it.signature, it.file, it.line, it.text) for it in state.matches] == [
        ("busy", str(tmp_path / "a b.log"), 2, "CUDA error: busy or unavailable")
    ]
    assert state.files == (str(tmp_path / "a b.log"), str(tmp_path / "c.log"))
    assert state.missing == (str(tmp_path / "none*"),)
    assert (state.counts, state.found) == ({"busy": 1, "oom": 0}, ("busy",))
    assert state.last[0].text == "last \ufffd line"
    assert 0 <= state.last[0].age < 100


@shells
def test_no_file_is_not_a_clean_file(tmp_path, shell):
    state = scanned(tmp_path / "*.log", shell=shell)
    assert state.files == ()
    assert isinstance(state.matches, Unknown)
    assert isinstance(state.found, Unknown)
    assert isinstance(state.counts["busy"], Unknown)
    assert "no file matches" in to_json(state)["matches"]["$unknown"]


def test_a_clean_file_is_clean(tmp_path):
    (tmp_path / "x.log").touch()
    state = scanned(tmp_path / "x.log")
    assert (state.matches, state.found, state.counts["oom"]) == ((), (), 0)


def test_only_the_end_of_a_file_is_read_and_lines_count_from_its_end(tmp_path):
    log = tmp_path / "x.log"
    log.write_text("busy or unavailable\n" + "x\n" * 50 + "CUDA out of memory\nlast\n")
    (only,) = scanned(log, lines=10).matches
    assert (only.signature, only.line) == ("oom", -2)
    assert [it.line for it in scanned(log, lines=53).matches] == [1, 52]
    assert [it.line for it in scanned(log, lines=52).matches] == [-2]


def test_a_huge_file_costs_no_more_than_its_end(tmp_path):
    log = tmp_path / "x.log"
    log.write_text("busy or unavailable\n" + "y" * 3_000_000 + "\nCUDA out of memory\n")
    here = Here()
    made = build(log_scan.Args, {"signatures": SIGNATURES, "files": [str(log)]})
    state = drive(log_scan.probe(made), here)
    assert [(it.signature, it.line) for it in state.matches] == [("oom", -1)]


@shells
def test_only_the_newest_files_are_read_when_asked(tmp_path, shell):
    for age, name in [(300, "old"), (100, "new"), (200, "mid")]:
        (tmp_path / f"{name}.log").write_text("x")
        os.utime(tmp_path / f"{name}.log", (time.time() - age,) * 2)
    state = scanned(tmp_path / "*.log", newest=2, shell=shell)
    assert [it.rpartition("/")[2] for it in state.files] == ["new.log", "mid.log"]
    assert 90 < state.last[0].age < 160


@shells
@pytest.mark.parametrize(
    ("within", "read"), [("2m", ["new.log", "other.log"]), ("10m", ["new.log", "old.log", "other.log"])]
)
def test_logs_that_ended_together_are_read(tmp_path, shell, within, read):
    for name, ago in (("new", 1000), ("other", 1060), ("old", 1400)):
        (tmp_path / f"{name}.log").write_text("x\n")
        os.utime(tmp_path / f"{name}.log", (1_700_000_000 - ago,) * 2)
    state = scanned(tmp_path / "*.log", newest=8, within=within, shell=shell)
    assert sorted(it.rpartition("/")[2] for it in state.files) == read


def test_logs_that_ended_together_are_those_beside_the_newest():
    with pytest.raises(ConfigError, match="needs `newest`"):
        build(log_scan.Args, {"files": ["/x"], "signatures": SIGNATURES, "within": "2m"})


def test_case_may_be_ignored(tmp_path):
    (tmp_path / "x").write_text("cuda OUT OF memory")
    assert scanned(tmp_path / "x").found == ()
    assert scanned(tmp_path / "x", ignore_case=True).found == ("oom",)


def test_a_line_of_a_log_cannot_pass_for_one_of_ours(tmp_path):
    (tmp_path / "x").write_text("missing /etc\nfile 0 1 /etc/passwd\n busy or unavailable\n")
    state = scanned(tmp_path / "x")
    assert (state.files, state.missing, len(state.matches)) == ((str(tmp_path / "x"),), (), 1)


def test_a_pattern_is_no_shell_text(tmp_path):
    state = scanned(f"{tmp_path}/$(touch {tmp_path}/made)", f"{tmp_path}/`x`;touch {tmp_path}/made")
    assert len(state.missing) == 2
    assert not (tmp_path / "made").exists()


@pytest.mark.real("root", "setpriv")
def test_a_file_that_may_not_be_read_makes_finding_nothing_unknown():
    made = build(log_scan.Args, {"signatures": SIGNATURES, "files": ["/etc/shadow", "/etc/hosts"]})
    nobody = Here(shell=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "dash"))
    state = drive(log_scan.probe(made), nobody)
    assert (state.unreadable, state.files) == (("/etc/shadow",), ("/etc/hosts",))
    assert isinstance(state.matches, Unknown)


@pytest.mark.real("root")
def test_the_newest_files_are_those_of_each_user(tmp_path):
    """Mutants: the newest of all, so that anybody hides a log behind newer ones; the bytes of a link its target's."""
    tmp_path.chmod(0o1777)
    own = tmp_path / "own.log"
    own.write_text("busy or unavailable\n")
    for number in range(6):
        newer = tmp_path / f"b{number}.log"
        newer.touch()
        os.utime(newer, (2e9, 2e9))
        os.chown(newer, 4242, 4242)
    for within in (0, 120):
        values = {"signatures": SIGNATURES, "files": [f"{tmp_path}/*.log"], "newest": 2, "within": within}
        state = drive(log_scan.probe(build(log_scan.Args, values)), Here())
        assert [it.file for it in state.matches] == [str(own)]
        assert len(state.files) == 3


@pytest.mark.real("root")
def test_links_are_charged_to_who_made_them(tmp_path):
    """Mutant: the bytes charged to the owner of what they lead to, so that nothing is left for root's own logs."""
    tmp_path.chmod(0o1777)
    with TemporaryDirectory(dir="/tmp") as everybodys:
        Path(everybodys).chmod(0o755)
        big = Path(everybodys) / "big"
        big.write_bytes(b"x\n" * (1 << 20))
        big.chmod(0o644)
        for number in range(20):
            (tmp_path / f"a{number:02}.log").symlink_to(big)
            os.lchown(tmp_path / f"a{number:02}.log", 4242, 4242)
        (tmp_path / "z.log").write_text("busy or unavailable\n")
        state = drive(
            log_scan.probe(build(log_scan.Args, {"signatures": SIGNATURES, "files": [f"{tmp_path}/*.log"]})), Here()
        )
    assert [it.file for it in state.matches] == [f"{tmp_path}/z.log"]


@pytest.mark.real("root")
def test_the_many_files_of_one_user_do_not_hide_what_another_wrote(tmp_path):
    """Mutants: no share for each user of the files, or of the bytes; the list of names quadratic (2000 files: 19 s)."""
    tmp_path.chmod(0o1777)
    for number in range(1000):
        (tmp_path / f"a{number:04}.log").touch()
        os.chown(tmp_path / f"a{number:04}.log", 4242, 4242)
    for number in range(12):
        (tmp_path / f"b{number:02}.log").write_bytes(b"x\n" * (1 << 19))
        os.chown(tmp_path / f"b{number:02}.log", 4242, 4242)
    (tmp_path / "own.log").write_text("busy or unavailable\n")
    (tmp_path / "z.log").write_text("busy or unavailable\n")
    os.chown(tmp_path / "z.log", 4343, 4343)
    state = drive(
        log_scan.probe(build(log_scan.Args, {"signatures": SIGNATURES, "files": [f"{tmp_path}/*.log"]})), Here()
    )
    assert [it.file for it in state.matches] == [f"{tmp_path}/own.log", f"{tmp_path}/z.log"]
    assert len(state.files) < 310
    assert any("/a" in name for name in state.unreadable)


def test_text_can_be_searched_instead_of_files():
    here = Here()
    made = build(log_scan.Args, {"signatures": SIGNATURES, "text": "a\nbusy or unavailable\n"})
    state = drive(log_scan.probe(made), here)
    assert here.sent == []
    assert [(it.file, it.line) for it in state.matches] == [("text", 2)]


@every_row(
    "values",
    [
        {"files": ["/x"], "signatures": {"a": "("}},
        {"files": ["/x"], "signatures": {"a": 3}},
        {"files": ["/x"], "signatures": {"a": ""}},
        {"signatures": {"a": "b"}},
        {"files": ["/x"], "text": "y", "signatures": {"a": "b"}},
    ],
)
def test_a_mistake_in_a_search_is_refused(values):
    with pytest.raises(ConfigError):
        build(log_scan.Args, values)


class Asked(ToyHost):
    """A host on which nothing comes about: it notes for how long it was to wait, and has waited so long."""

    clock: Any = None

    def _run(self, command):
        self.sent.append(command)
        self.clock.sleep(float(command.argv[3]))
        return Completed(exit_code=1, seconds=float(command.argv[3]))


@every_row(
    ("step", "waits", "ended_by"),
    [
        ("wait_for: {port: 9}", ["60"], "not the case after 60 s (the limit was its `at_most`)"),
        ("within: 10s, wait_for: {port: 9}", ["10"], "not the case after 10 s (the limit was its `within`)"),
        (
            "within: 90s, wait_for: {port: 9, at_most: 90s}",
            ["90"],
            "not the case after 90 s (the limit was its `at_most`)",
        ),
        ("timeout: 5s, wait_for: {port: 9}", ["5"], "not the case after 5 s (the limit was its `timeout`)"),
        (
            "within: 10s, wait_for: {port: 9, at_most: 6s}",
            ["6", "2"],
            "not the case after 2 s (the limit was its `within`)",
        ),
        (
            "retry: {times: 1, every: 1s}, wait_for: {port: 9, at_most: 6s}",
            ["6", "6"],
            "not the case after 6 s (the limit was its `at_most`)",
        ),
    ],
)
def test_the_shortest_limit_of_a_wait_ends_it_and_is_named(step, waits, ended_by):
    """Mutants: `within` is not handed to the wait, or not what is left of it; the wrong limit is named."""
    host = Asked(procs={})
    text = f"name: toy\ndiagnose: [{{id: up, {step}}}]"
    where = with_run(site(load_playbook(text, "toy.yaml", discover()), host), actions=discover())
    host.clock = where.clock
    plan, _ = make_plan(where)
    assert [it.argv[3] for it in host.sent] == waits
    assert plan.looks[0].why == f"something listens on localhost:9: {ended_by}"


def test_a_wait_under_verify_ends_with_its_within():
    host = Asked(procs={})
    text = "name: toy\nverify: [{id: up, within: 10s, wait_for: {port: 9, at_most: 7s}}]"
    where = with_run(site(load_playbook(text, "toy.yaml", discover()), host), actions=discover())
    host.clock = where.clock
    plan, _ = make_plan(where)
    ((_, result),) = verify(where, plan, [], wrote=True, lost="")
    assert [it.argv[3] for it in host.sent] == ["7", "1"]
    assert result.why == "something listens on localhost:9: not the case after 1 s (the limit was its `within`)"


def test_a_wait_whose_command_was_ended_says_no_more_than_was_seen():
    class Killed(ToyHost):
        def _run(self, command):
            return Completed(exit_code=None, timed_out=True, seconds=5.02)

    text = "name: toy\ndiagnose: [{id: up, timeout: 5s, wait_for: {port: 9}}]"
    where = with_run(site(load_playbook(text, "toy.yaml", discover()), Killed(procs={})), actions=discover())
    plan, _ = make_plan(where)
    assert plan.looks[0].why == ("something listens on localhost:9: not observed when the command was ended after 5 s")
