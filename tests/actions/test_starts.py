"""Restart loops, told from the times in real log files."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.system import starts
from runbook.library.system.starts import of_container
from runbook.protocols import Fails, Holds
from runbook.values.command import Effect
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each
from tests.support.tables import every_row
from tests.support.waiting import until

shells = pytest.mark.parametrize("shell", each(SHELLS))
FATAL = "fatal: destination path 'AReaL' already exists and is not an empty directory."
CAME_THROUGH = {"expect": ["Cloning into", "step 1"], "never": ["fatal:"]}


def stamp(ago: float, form: str = "%Y-%m-%dT%H:%M:%SZ") -> str:
    return datetime.fromtimestamp(time.time() - ago, UTC).strftime(form)


def log(path, *agos: float, after=(FATAL,), form="%Y-%m-%dT%H:%M:%SZ"):
    """A log with a start so many seconds ago for each of *agos*, and lines *after* each."""
    lines = [line for ago in agos for line in (f"{stamp(ago, form)} start container: begin", *after)]
    path.write_text("\n".join(lines) + "\n")
    return path


def looked(path, shell="dash", **values):
    made = build(starts.Args, {"files": [str(path)], "started": "start container", **values})
    here = Here(shell=SHELLS[shell])
    state = drive(starts.probe(made), here)
    assert {it.effect for it in here.sent} == {Effect.READ}
    return made, state


@shells
def test_small_gaps_are_a_loop_although_one_is_long(tmp_path, shell):
    made, state = looked(log(tmp_path / "a b'c.log", 483, 466, 449, 36, 19, 2), shell)
    assert state.loop is True
    assert (state.count, state.gap, state.longest, state.shortest) == (6, 17, 413, 17)
    assert 1 <= state.age <= 10
    assert state.since[-1] == FATAL
    answer = starts.holds(made, state)
    assert isinstance(answer, Fails)
    assert answer.why == "6 starts, with a median interval of 17 s"


def test_few_starts_and_slow_ones_are_none(tmp_path):
    assert looked(log(tmp_path / "log", 20, 2))[1].loop is False
    assert looked(log(tmp_path / "log", 500, 300, 2))[1].loop is False
    assert looked(log(tmp_path / "log", 500, 300, 2), gap_below="300s")[1].loop is True
    assert looked(log(tmp_path / "log", 40, 20, 2), at_least=4)[1].loop is False


def test_a_loop_of_yesterday_is_over(tmp_path):
    path = log(tmp_path / "log", 86440, 86420, 86400)
    made, state = looked(path)
    assert (state.loop, state.count) == (False, 0)
    assert isinstance(state.gap, Unknown)
    assert isinstance(starts.holds(made, state), Holds)
    assert looked(path, window="2d", over_after="2d")[1].loop is True
    assert looked(log(path, 1040, 1020, 1000))[1].loop is False, "nothing was started for 15 minutes"


def test_a_start_that_came_through_ends_it(tmp_path):
    path = log(tmp_path / "log", 50, 33, 16)
    assert looked(path, **CAME_THROUGH)[1].loop is True
    with path.open("a") as file:
        file.write(f"{stamp(1)} start container: begin\nCloning into 'AReaL'...\n")
    made, state = looked(path, **CAME_THROUGH)
    assert state.loop is True
    assert state.lacking == ("step 1",)
    with path.open("a") as file:
        file.write("step 1 of 250\n")
    made, state = looked(path, **CAME_THROUGH)
    assert (state.loop, state.through) == (False, True)
    assert isinstance(starts.holds(made, state), Holds)
    with path.open("a") as file:
        file.write("fatal: out of luck\n")
    made, state = looked(path, **CAME_THROUGH)
    assert state.failed == ("fatal: out of luck",)
    assert state.loop is True


def test_what_ended_the_start_before_is_known_while_the_last_one_says_nothing_yet(tmp_path):
    """Mutants: library/system/starts/__init__.py with the lines of all starts before; with those of the last one."""
    text = "".join(f"{stamp(it)} start container: begin\nfatal: {it}\n" for it in (50, 33, 16))
    path = tmp_path / "log"
    path.write_text(f"{text}{stamp(1)} start container: begin\n")
    _, state = looked(path, **CAME_THROUGH)
    assert (state.loop, state.failed, state.failed_before) == (True, (), ("fatal: 16",))
    path.write_text(f"{stamp(1)} start container: begin\nfatal: 1\n")
    _, state = looked(path, **CAME_THROUGH)
    assert (state.failed, state.failed_before) == (("fatal: 1",), ())


def test_what_was_not_seen_since_the_last_start_is_said(tmp_path):
    made, state = looked(log(tmp_path / "log", 5, after=()), **CAME_THROUGH)
    assert state.loop is False
    assert starts.holds(made, state).why == "not found since the last start: Cloning into, step 1"
    made, state = looked(log(tmp_path / "log", 5), **CAME_THROUGH)
    assert starts.holds(made, state).why == f"since the last start: {FATAL}"


@every_row("form", ["%Y-%m-%d %H:%M:%S,123+00:00", "[%Y-%m-%dT%H:%M:%SZ]", "%Y-%m-%dT%H:%M:%S.123456789Z"])
def test_times_are_read_in_the_forms_that_logs_have(tmp_path, form):
    _, state = looked(log(tmp_path / "log", 34, 17, 0, form=form))
    assert state.gap == pytest.approx(17, abs=1)


@every_row("form", ["%Y%m%d-%H:%M:%S.123", "%b %e %H:%M:%S"])
def test_a_time_without_a_zone_is_in_the_hosts(tmp_path, form):
    path = tmp_path / "log"
    lines = [time.strftime(form.replace("123", "5"), time.localtime(time.time() - it)) for it in (36, 19, 2)]
    path.write_text("".join(f"{it} box start container\n" for it in lines))
    _, state = looked(path)
    assert state.gap == 17
    assert state.age < 60
    assert state.loop is True


def test_starts_are_ordered_over_several_files(tmp_path):
    log(tmp_path / "b.log", 40, 20)
    log(tmp_path / "a.log", 30, 10, after=("newest",))
    _, state = looked(tmp_path / "*.log")
    assert (state.count, state.gap) == (4, 10)
    assert state.since[-1] == "newest"


def test_lines_without_a_time_are_unknown_and_no_file_is_too(tmp_path):
    path = tmp_path / "log"
    path.write_text("start container\n" * 9)
    made, state = looked(path)
    assert isinstance(state.loop, Unknown)
    assert "have no time" in state.loop.why
    with pytest.raises(ProbeError):
        starts.holds(made, state)
    made, state = looked(tmp_path / "none*")
    assert "no file matches" in state.loop.why
    assert state.missing == (str(tmp_path / "none*"),)


@pytest.mark.real("root", "setpriv")
def test_a_file_that_may_not_be_read_is_unknown(tmp_path):
    log(tmp_path / "readable", 1)
    path = log(tmp_path / "secret", 1)
    path.chmod(0)
    for it in (tmp_path, *(it for it in tmp_path.parents if "pytest-of-" in str(it))):
        os.chmod(it, os.stat(it).st_mode | 0o055)
    made = build(starts.Args, {"files": [f"{tmp_path}/*"], "started": "start"})
    here = Here(shell=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "dash"))
    state = drive(starts.probe(made), here)
    assert isinstance(state.loop, Unknown)
    assert state.unreadable == (str(path),)


def test_a_text_is_searched_too_and_is_as_old_as_its_last_line():
    text = "\n".join(f"2025-11-21T03:00:{it:02}Z start container" for it in (0, 17, 34))
    made = build(starts.Args, {"text": text, "started": "start"})
    state = drive(starts.probe(made), None)
    assert state.loop is True
    assert state.starts[0] == "2025-11-21T03:00:00Z"


def test_what_a_container_wrote_before_docker_noted_its_start_belongs_to_that_start():
    """Mutants: the lines cut at the time of the note; those of the life before taken for its own."""
    stamped = [f"2025-11-21T03:00:{at}Z {text}" for at, text in (("00.9", "a"), ("05.2", FATAL), ("05.4", "c"))]
    zero = 1763694000.0
    logs, at = of_container("areal", stamped, (zero + 1, zero + 5.3), (zero + 4,), zero + 9)
    assert [it.text.partition(" ")[2] or it.text for it in logs.lines] == [
        "Docker starts areal", "a", "Docker starts areal", FATAL.partition(" ")[2], "c",
    ]  # fmt: skip
    assert at == (0, 2)
    assert logs.lines[at[1]].at == zero + 5.3


@pytest.mark.real("docker")
@pytest.mark.soak
def test_docker_s_word_of_the_starts_counts_and_the_log_tells_why_each_ended(engine):
    """Mutants: the log's own times taken for starts; a log that nobody keeps taken for an empty one."""

    def seen(name):
        made = build(starts.Args, {"container": name, "window": "10m", **CAME_THROUGH})
        return made, drive(starts.probe(made), engine.machine())

    line = f'echo "{FATAL}" >&2; exit 128'
    for name, driver in (("loop", "json-file"), ("mute", "none")):
        engine("run", "-d", "--name", name, "--restart=always", "--network", "none", "--log-driver", driver, "base:1", "sh", "-c", line)  # fmt: skip
    calm = engine.lives()
    until(lambda: min(int(engine.inspect(it, "{{.RestartCount}}")) for it in ("loop", "mute")) >= 4)

    def between_two_starts():
        """What is seen then, when the last has said all."""
        before = engine.inspect("loop", "{{.State.Status}} {{.RestartCount}}")
        looked = seen("loop")
        after = engine.inspect("loop", "{{.State.Status}} {{.RestartCount}}")
        return looked if before == after and before.startswith("restarting") else None

    made, state = until(between_two_starts, within=120)
    assert state.loop is True
    assert state.count >= 4
    assert (state.failed, len(state.since)) == ((FATAL,), 2)
    assert isinstance(starts.holds(made, state), Fails)
    made, state = seen("mute")
    assert state.loop is True
    assert isinstance(state.failed, Unknown)
    assert "has no log" in state.failed.why
    assert (seen(calm)[1].loop, seen(calm)[1].count) == (False, 1)
    assert "no container nobody" in seen("nobody")[1].loop.why


def test_what_cannot_be_meant_is_refused():
    for bad in ({}, {"files": ["/x"], "text": "y"}, {"files": ["/x"], "container": "y"}):
        with pytest.raises(ConfigError):
            build(starts.Args, {"started": "x", **bad})
    with pytest.raises(ConfigError, match="empty"):
        build(starts.Args, {"started": "", "files": ["/x"]})
    with pytest.raises(ConfigError):
        build(starts.Args, {"started": "x(", "files": ["/x"]})


def test_a_start_that_stands_longer_than_any_of_the_loop_ends_it_without_its_words(tmp_path):
    """Mutants: a start that said `fatal:` taken for one that stands; a silent one taken for one that works on."""
    quiet = log(tmp_path / "quiet", 170, 153, 136, after=())
    made, state = looked(quiet, **CAME_THROUGH)
    assert (state.loop, state.through, state.outlived) == (True, False, False), "nothing shows that it works"
    with quiet.open("a") as file:
        file.write(f"{stamp(2)} INFO: batch 12 of 250\n")
    made, state = looked(quiet, **CAME_THROUGH)
    assert (state.loop, state.outlived, state.lived) == (False, True, pytest.approx(134, abs=2))
    answer = starts.holds(made, state)
    assert isinstance(answer, Holds)
    assert "not found: Cloning into, step 1" in answer.why
    failed = log(tmp_path / "failed", 170, 153, 136)
    with failed.open("a") as file:
        file.write(f"{stamp(2)} INFO: something goes on\n")
    made, state = looked(failed, **CAME_THROUGH)
    assert (state.loop, state.outlived) == (True, False)
    assert isinstance(starts.holds(made, state), Fails)


def test_the_words_of_a_start_may_stand_in_another_log(tmp_path):
    """Mutants: lines of the other log from before the start."""
    log(tmp_path / "container.log", 50, 33, 16, after=("Cloning into 'AReaL'...",))
    (tmp_path / "train.log").write_text(f"{stamp(40)} step 1 of 250\n")
    _, state = looked(tmp_path / "*.log", **CAME_THROUGH)
    assert (state.loop, state.lacking) == (True, ("step 1",))
    (tmp_path / "train.log").write_text(f"{stamp(4)} step 1 of 250\nfatal: of somebody else\n")
    _, state = looked(tmp_path / "*.log", **CAME_THROUGH)
    assert (state.loop, state.through, state.failed) == (False, True, ())


HEALTHY = {
    "clone": ["Cloning into 'AReaL'...", "Successfully installed areal-0.3", "Train step 1/250 done."],
    "fetch": ["From https://example.com/areal", "Already on 'main'", "Requirement already satisfied: torch", "Epoch 1/1 Step 1/250"],
    "pull": ["Updating 1a2b3c4..5d6e7f8", "Fast-forward", "Resolved 212 packages in 1.2s", "global_step: 1"],
    "detached": ["HEAD is now at 1a2b3c4 x", "Checked 212 packages in 3ms", "starting training"],
    "old git": ["Already up-to-date.", "Successfully built areal", "Training Started"],
}  # fmt: skip


@every_row("case", HEALTHY)
def test_what_the_playbook_expects_is_what_healthy_starts_say(tmp_path, case):
    _, state = looked(
        log(tmp_path / "log", 34, 17, 1, after=HEALTHY[case]), expect=_default("expect"), never=["fatal:"]
    )
    assert (state.lacking, state.through, state.loop) == ((), True, False)


def _default(name: str) -> list[str]:
    path = Path(__file__).parents[2] / "playbooks/restart-loop.yaml"
    return yaml.safe_load(path.read_text())["inputs"][name]["default"]
