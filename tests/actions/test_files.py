"""Files: counted, the newest and the highest named, growth seen, and what may not be read is never none."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.files import files
from runbook.library.files.facts.listing import number_of, read_files
from runbook.protocols import Fails, Holds
from runbook.values.command import Completed, Effect
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Meanwhile, drive
from tests.support.real_processes import each
from tests.support.tables import every_row

shells = pytest.mark.parametrize("shell", each(SHELLS))
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "dash")


def looked(*paths, shell=SHELLS["dash"], meanwhile='command sleep "$1"', **values):
    made = build(files.Args, {"paths": [str(it) for it in paths], **values})
    here = Meanwhile(shell=shell, act=meanwhile)
    state = drive(files.probe(made), here)
    assert [it.effect for it in here.sent] == [Effect.READ]
    return made, state


def aged(path, age, text="x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age,) * 2)
    return path


@shells
def test_files_are_counted_and_the_newest_comes_first(tmp_path, shell):
    aged(tmp_path / "a.pt", 100, "123")
    aged(tmp_path / "b b.pt", 50, "12345")
    aged(tmp_path / "c.log", 10)
    made, state = looked(tmp_path / "*.pt", tmp_path / "none*", shell=SHELLS[shell])
    assert (state.count, state.total, state.newest) == (2, 8, str(tmp_path / "b b.pt"))
    assert [it.path for it in state.files] == [str(tmp_path / "b b.pt"), str(tmp_path / "a.pt")]
    assert 45 < state.age < 90
    assert state.missing == (str(tmp_path / "none*"),)
    assert isinstance(files.holds(made, state), Holds)


@shells
def test_the_highest_step_is_told_by_its_number_and_not_by_its_letters(tmp_path, shell):
    for name in ("step_9", "step_10", "step_2", "step_last"):
        (tmp_path / "rollouts" / name).mkdir(parents=True)
    _, state = looked(tmp_path / "rollouts" / "step_*", shell=SHELLS[shell])
    assert (state.highest, state.number, state.count) == (str(tmp_path / "rollouts" / "step_10"), 10, 4)
    assert {it.kind for it in state.files} == {"directory"}


@shells
def test_files_are_found_however_deep(tmp_path, shell):
    aged(tmp_path / "out/step_3/rank_0.pt", 30)
    aged(tmp_path / "out/step_3/deep er/rank_11.pt", 20)
    aged(tmp_path / "out/step_3/rank_2.txt", 10)
    _, state = looked(tmp_path / "out", inside="*.pt", shell=SHELLS[shell])
    assert (state.count, state.newest) == (2, f"{tmp_path}/out/step_3/deep er/rank_11.pt")
    assert state.number == 11
    assert looked(tmp_path / "out", inside="*.bin", shell=SHELLS[shell])[1].count == 0


@shells
def test_odd_names_are_only_names(tmp_path, shell):
    names = ["-n", "new\nline", "a'b\"c", "$(id)", "two\n\nmissing x", "*", " "]
    for it in names:
        (tmp_path / it).write_text("x")
    _, state = looked(tmp_path / "*", shell=SHELLS[shell])
    assert sorted(it.path for it in state.files) == sorted(f"{tmp_path}/{it}" for it in names)
    assert looked(tmp_path, inside="*", shell=SHELLS[shell])[1].count == len(names)
    assert state.missing == ()


@shells
def test_nothing_is_not_something(tmp_path, shell):
    made, state = looked(tmp_path / "step_*", shell=SHELLS[shell])
    assert (state.count, state.total, state.files) == (0, 0, ())
    assert all(isinstance(it, Unknown) for it in (state.newest, state.age, state.highest, state.number))
    assert isinstance(files.holds(made, state), Fails)
    assert isinstance(files.holds(build(files.Args, {"paths": made.paths, "at_least": 0}), state), Holds)


@shells
def test_growth_between_two_looks_is_seen(tmp_path, shell):
    log = aged(tmp_path / "grows.log", 5)
    aged(tmp_path / "still.log", 5)
    writes = f'printf more >>"{log}"; printf new >"{tmp_path}/new.log"'
    made, state = looked(tmp_path / "*.log", apart="1s", growing=True, shell=SHELLS[shell], meanwhile=writes)
    assert (state.growing, state.grown, state.added) == (True, 7, (str(tmp_path / "new.log"),))
    assert isinstance(files.holds(made, state), Holds)
    made, state = looked(tmp_path / "still.log", apart="200ms", growing=True, shell=SHELLS[shell])
    assert (state.growing, state.grown) == (False, 0)
    assert files.holds(made, state).why.endswith("nothing was written in 0.2 s")


@shells
def test_a_file_that_is_written_to_all_the_time_grows_although_its_size_stays(tmp_path, shell):
    base = tmp_path / "games.db"
    base.write_text("page")
    writes = f'command sleep 1.1; touch "{base}"'
    _, state = looked(base, apart="1500ms", growing=True, shell=SHELLS[shell], meanwhile=writes)
    assert (state.growing, state.grown) == (True, 0)


def test_one_look_sees_no_growth(tmp_path):
    assert isinstance(looked(aged(tmp_path / "x", 1))[1].growing, Unknown)


def test_the_age_that_is_wanted_is_held(tmp_path):
    made, state = looked(aged(tmp_path / "x", 500), younger_than="10m")
    assert isinstance(files.holds(made, state), Holds)
    made, state = looked(tmp_path / "x", younger_than="1m")
    assert "wanted 60 s at most" in files.holds(made, state).why


def test_a_time_of_writing_that_lies_ahead_is_an_age_that_nobody_knows_and_never_a_young_one(tmp_path):
    """Mutants: listing.py taking such an age for 0."""
    aged(tmp_path / "old", 5000)
    made, state = looked(aged(tmp_path / "x", -3600), tmp_path / "old", younger_than="10m")
    assert state.newest == str(tmp_path / "x")
    assert re.search("(60 min|59 min [0-9]+ s) in the future: the clock of this host is wrong, or was", state.age.why)
    with pytest.raises(ProbeError, match="in the future"):
        files.holds(made, state)
    assert looked(aged(tmp_path / "x", -20))[1].age == 0, "a file server's clock is never quite the host's"


def test_files_with_such_names_are_left_out(tmp_path):
    """Mutant: `without` not handed to the host."""
    for name in ("train_rollouts.bin", "train_rollouts.bin.tmp", "rank_0.pt", "rank_0.tmp"):
        (tmp_path / name).write_text("x")
    found = looked(tmp_path, inside="*", without="*.tmp")[1]
    assert {Path(file.path).name for file in found.files} == {"train_rollouts.bin", "rank_0.pt"}
    assert looked(tmp_path, inside="*")[1].count == 4


@pytest.mark.real("root", "setpriv")
@pytest.mark.parametrize("inside", ["", "*.pt"])
def test_what_may_not_be_looked_into_is_not_empty(inside):
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        aged(Path(place) / "hidden/deep/x.pt", 1)
        (Path(place) / "hidden").chmod(0o700)
        paths = [place] if inside else [f"{place}/hidden/deep/*"]
        made, state = looked(*paths, inside=inside, shell=NOBODY)
    assert state.unreadable == (f"{place}/hidden",)
    assert isinstance(state.count, Unknown)
    assert state.missing == ()
    with pytest.raises(ProbeError, match="could not be read"):
        files.holds(made, state)


def test_a_link_is_what_it_leads_to(tmp_path):
    aged(tmp_path / "a.log", 100, "12345")
    (tmp_path / "current").symlink_to("a.log")
    (tmp_path / "dangling").symlink_to("/nowhere")
    assert looked(tmp_path / "current")[1].total == 5
    assert looked(tmp_path / "dangling")[1].count == 1


def test_a_list_that_is_too_long_is_not_believed():
    text = "now 5\x01\n" + f"1 2 81a4 /{'x' * 2000}\x01\n" * 2000
    with pytest.raises(ProbeError, match="more files than can be listed"):
        read_files(Completed(exit_code=0, stdout=text))


@every_row(
    ("name", "number"),
    [
        ("step_10", 10),
        ("/a/step_7/rank_3.pt", 3),
        ("x.7z", 7),
        ("v2-00012.tar.gz", 12),
        ("run.log.1", 1),
        ("model", None),
    ],
)
def test_the_last_number_of_a_name_is_its_number(name, number):
    assert number_of(name) == number if number is not None else isinstance(number_of(name), Unknown)


@given(st.text(max_size=30))
def test_any_name_is_numbered_or_not(name):
    number_of(name)
    with contextlib.suppress(ProbeError):
        read_files(Completed(exit_code=0, stdout=f"now 5\x01\n{name}\x01\n"))


@every_row("printed", ["", "soon", "\u0665", "-5", "9" * 16])
def test_without_the_time_of_the_host_nothing_is_known(printed):
    with pytest.raises(ProbeError, match="time is not known"):
        read_files(Completed(exit_code=0, stdout=f"now {printed}\x01\n10 5 81a4 /a\x01\n"))


@every_row(
    "values",
    [
        {"paths": []},
        {"paths": ["x"]},
        {"paths": ["/x"], "growing": True},
        {"paths": ["/x"], "inside": "a/b"},
        {"paths": ["/x"], "without": "*.tmp"},
    ],
)
def test_a_mistake_is_refused(values):
    with pytest.raises(ConfigError):
        build(files.Args, values)


def test_globs_stay_globs_by_hand():
    assert files.by_hand(build(files.Args, {"paths": ["~/a b/*.pt"]})) == ("ls -ldt -- ~/'a b/'*.pt",)


@every_row("text", ["", "missing /a\x01\n", "now\x01\n10 5 81a4 /a\x01\n", "garbage", "\x01\n\x01\n"])
def test_an_answer_without_a_beginning_is_none(text):
    """Mutant: ``read_files`` that gives no listing at all, of which there is no last one."""
    with pytest.raises(ProbeError, match=r"no beginning|time is not known"):
        read_files(Completed(exit_code=0, stdout=text))
