"""Detached sessions of a real tmux."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from runbook.errors import ConfigError
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure
from runbook.language.arguments import build
from runbook.library.commands import tmux
from runbook.values.plan import Blocked
from tests.support.probe_driver import drive
from tests.support.real_processes import Machine, lives, shell
from tests.support.run_step import see, take
from tests.support.tables import every_row
from tests.support.waiting import appears, until

real = pytest.mark.real("tmux")


@pytest.fixture(autouse=True)
def own_server(tmp_path, monkeypatch):
    """Sessions of this test only."""
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    monkeypatch.delenv("TMUX", raising=False)
    yield
    if shutil.which("tmux"):
        subprocess.run(["tmux", "kill-server"], capture_output=True, check=False)


@real
def test_a_command_goes_on_after_the_connection_is_gone_and_is_not_started_twice(tmp_path):
    args = {"session": "monitoring", "script": "while :; do date >tick; sleep 0.1; done", "folder": str(tmp_path)}
    taken = take("tmux", args)
    assert (taken.status, taken.result.verified) == ("changed", True), taken.why
    (tmp_path / "tick").unlink()
    assert appears(tmp_path / "tick")
    again = take("tmux", args)
    assert (again.status, again.writes) == ("ok", [])
    assert "the session monitoring exists (pid " in again.why
    outcome = see("tmux", args)
    assert isinstance(outcome, ProbeAnswer)
    (pid,) = outcome.state.pids
    assert lives(pid)
    own = Path(f"/proc/{pid}/environ").read_bytes()
    assert b"RUNBOOK_SESSION" not in own, "what ends our own processes does not take it for one"


@real
def test_what_a_session_has_started_is_its_tree_down_to_the_last(tmp_path):
    """Mutants: the session's own process alone; only what that has started itself."""
    script = "sh -c 'echo $$ >child; sh -c \"echo \\$\\$ >grandchild; exec sleep 100\"; :'; :"
    args = {"session": "server", "script": script, "folder": str(tmp_path)}
    assert take("tmux", args).status == "changed"
    until(lambda: all((tmp_path / it).exists() and (tmp_path / it).read_text() for it in ("child", "grandchild")))
    outcome = see("tmux", args)
    assert isinstance(outcome, ProbeAnswer)
    below = {int((tmp_path / it).read_text()) for it in ("child", "grandchild")}
    assert {*outcome.state.pids, *below} == set(outcome.state.tree)
    assert len(outcome.state.tree) == 3


@real
@pytest.mark.real("root", "cgroup")
def test_a_session_lives_on_when_the_step_that_started_it_times_out(tmp_path):
    """Mutants: ``outlive`` that does not leave the control group; tmux started without it."""
    args = {"session": "monitoring", "argv": ["sleep", "100"], "folder": str(tmp_path), "steady": "60s"}
    taken = take("tmux", args, timeout=10.0)
    assert (taken.status, "timed out" in taken.why) == ("timeout", True), taken.why
    outcome = see("tmux", args)
    assert isinstance(outcome, ProbeAnswer)
    (pid,) = outcome.state.pids
    assert lives(pid)
    assert "runbook-command" not in Path(f"/proc/{pid}/cgroup").read_text()


@real
def test_each_argument_reaches_the_program_unchanged(tmp_path):
    odd = ["a b", "$HOME", "it's", "#{pane_pid}", ";", "a;", "\\;"]
    script = 'out=$1; shift; printf "%s|" "$@" >"$out"; exec sleep 100'
    taken = take("tmux", {"session": "x", "argv": ["sh", "-c", script, "sh", str(tmp_path / "out"), *odd]})
    assert taken.status == "changed", taken.why
    assert (tmp_path / "out").read_text() == "|".join(odd) + "|"


@real
def test_a_command_that_ends_too_soon_is_no_success():
    taken = take("tmux", {"session": "x", "argv": ["sleep", "0.3"], "steady": "800ms"})
    assert (taken.status, taken.why) == ("failed", "started, but the session x is gone: its command has ended already")


@real
def test_a_session_whose_name_only_begins_alike_is_another_one():
    assert take("tmux", {"session": "monitoring", "argv": ["sleep", "100"], "steady": 0}).status == "changed"
    outcome = see("tmux", {"session": "mon", "argv": ["x"]})
    assert isinstance(outcome, ProbeAnswer)
    assert (outcome.state.exists, outcome.state.installed) == (False, True)


@real
@real
def test_a_script_that_ends_in_a_semicolon_is_run_whole(tmp_path):
    script = f'echo "$0" >{tmp_path}/out; sleep 100;'
    assert take("tmux", {"session": "x", "script": script}).status == "changed"
    assert (tmp_path / "out").read_text() == "sh\n"


@real
def test_a_folder_that_is_not_there_is_a_failure():
    assert take("tmux", {"session": "x", "argv": ["sleep", "9"], "folder": "/surely/not"}).status == "failed"


@real
def test_a_look_leaves_no_directory_of_sockets(tmp_path):
    outcome = see("tmux", {"session": "x", "argv": ["y"]})
    assert isinstance(outcome, ProbeAnswer)
    assert (outcome.state.exists, list(tmp_path.iterdir())) == (False, [])


@pytest.mark.real("tmux", "root")
@pytest.mark.parametrize("whose", ["another user's", "everybody's"])
def test_root_starts_nothing_where_others_can_put_files(tmp_path, whose):
    """Mutants: tmux.py ``_START``, and ``_LOOK``, going there by ``cd``."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    folder.chmod(0o1777 if whose == "everybody's" else 0o755)
    args = {"session": "x", "argv": ["sleep", "9"], "folder": str(folder)}
    if whose == "another user's":
        os.chown(folder, 65534, 65534)
    taken = take("tmux", args)
    assert (taken.status, taken.writes) == ("blocked", [])
    why = "belongs to nobody" if whose == "another user's" else "everybody can put files in"
    assert why in taken.why
    command = tmux.decide(build(tmux.Args, args), tmux.State(installed=True)).commands[0]  # it was safe a moment ago
    (done,) = Machine().run(command)
    assert done.exit_code == 3
    assert why in done.stderr


@pytest.mark.real("tmux", "root")
def test_a_directory_of_sockets_that_is_another_user_s_is_not_believed(tmp_path):
    sockets = tmp_path / "tmux-0"
    sockets.mkdir(mode=0o700)
    os.chown(sockets, 4242, 4242)
    outcome = see("tmux", {"session": "x", "argv": ["y"]})
    assert isinstance(outcome, ProbeFailure)
    assert "belongs to 4242" in outcome.why


@real
def test_a_tmux_that_may_not_say_is_not_known(tmp_path, monkeypatch):
    (tmp_path / f"tmux-{os.geteuid()}").mkdir(mode=0o755)  # which tmux finds too open
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    assert isinstance(see("tmux", {"session": "x", "argv": ["y"]}), ProbeFailure)


@pytest.mark.real("busybox")
def test_a_host_without_tmux_is_told_what_to_do(tmp_path):
    args = build(tmux.Args, {"session": "x", "argv": ["y"]})
    state = drive(tmux.probe(args), Machine(shell=shell("only busybox", tmp_path)))
    assert isinstance(tmux.decide(args, state), Blocked)


@every_row(
    "values",
    [
        {"session": "a.b", "argv": ["x"]},
        {"session": "a:0", "argv": ["x"]},
        {"session": "-x", "argv": ["x"]},
        {"session": "", "argv": ["x"]},
        {"session": "x"},
        {"session": "x", "argv": ["a"], "script": "b"},
        {"session": "x", "argv": [""]},
        {"session": "x", "argv": ["a"], "folder": "tmp"},
    ],
)
def test_a_mistake_in_the_arguments_is_refused(values):
    with pytest.raises(ConfigError):
        build(tmux.Args, values)
