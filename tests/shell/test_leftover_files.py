"""What a killed shell left behind is found by its name and removed by the next one of the same user, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from runbook.shell import SAFE
from tests.support.another_user import SHELLS, STRANGER, ask, directory, give

pytestmark = pytest.mark.real("root", "setpriv")

DAY = 24 * 3600


def workshop(shell: tuple[str, ...], place: Path) -> tuple[subprocess.Popen[str], Path]:
    """A shell that works in a workshop of its own in *place*, which holds a private file, and waits there."""
    line = f'safe_enter {place} && safe_workshop && echo secret >"./$work/copy" && echo "$work" && read -r go'
    made = subprocess.Popen(
        [*shell, "-c", f"{SAFE}\n( {line} )\n:"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert made.stdout
    return made, place / made.stdout.readline().strip()


def maker(left: Path) -> int:
    """The pid in the name of a workshop."""
    return int(left.name.split("-")[3])


def age(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("mode", [0o755, 0o1777], ids=["own", "shared"])
def test_what_a_killed_shell_left_is_removed_and_what_a_living_one_works_in_stays(shell, mode, ground):
    """Mutants: safe.sh ``safe_lives`` always true, or always false."""
    place = directory(ground / "place", mode)
    dead, left = workshop(shell, place)
    alive, used = workshop(shell, place)
    os.kill(maker(left), signal.SIGKILL)
    dead.communicate(timeout=60)
    assert (left / "copy").exists()
    assert ask(shell, f"safe_enter {place} && safe_tidy") == (0, "")
    assert [*place.iterdir()] == [used]
    alive.communicate("\n", timeout=60)
    assert ask(shell, f"safe_enter {place} && safe_tidy") == (0, "")
    assert [*place.iterdir()] == []


def test_the_name_is_that_of_the_shell_that_works_there_not_of_the_one_that_waits_for_it(ground):
    made, left = workshop(("bash",), ground)
    assert maker(left) != made.pid
    made.communicate("\n", timeout=60)


def test_a_pid_that_another_process_got_since_is_no_maker(ground):
    made, left = workshop(("bash",), ground)
    *front, start, end = left.name.split("-")
    left = left.rename(ground / "-".join([*front, str(int(start) - 1), end]))
    assert ask(("bash",), f"safe_enter {ground} && safe_tidy") == (0, "")
    assert not left.exists()
    made.communicate("\n", timeout=60)


@pytest.mark.parametrize("part", [1, 2], ids=["another boot", "another namespace"])
def test_a_maker_that_cannot_be_seen_from_here_has_a_day(part, ground):
    """Mutants: safe.sh ``safe_tidy`` without the realm."""
    made, left = workshop(("bash",), ground)
    made.communicate("\n", timeout=60)
    words = left.name.split("-")
    words[part] = words[part][:-1] + ("1" if words[part][-1] != "1" else "2")
    left = left.rename(ground / "-".join(words))
    ask(("bash",), f"safe_enter {ground} && safe_tidy")
    assert left.exists()
    age(left, DAY + 3600)
    ask(("bash",), f"safe_enter {ground} && safe_tidy")
    assert not left.exists()


def test_what_is_not_ours_or_no_workshop_stays(ground):
    """Mutants: safe.sh ``safe_tidy`` without the owner, without the mode, or with less of the pattern."""
    made, left = workshop(("bash",), ground)
    made.communicate("\n", timeout=60)
    place = directory(ground / "place", 0o1777)
    base = left.name
    target = directory(ground / "target", 0o700)
    (target / "keep").write_text("x")
    stay = [
        give(directory(place / base, 0o700)),
        directory(place / f"{base}1", 0o755),
        directory(place / f"{base}-1", 0o700),
        directory(place / f".runbook-{base.split('-', 2)[2]}", 0o700),
        directory(place / f"{base}z", 0o700),
        directory(place / f"{base} 2", 0o700),
        directory(place / ".runbook-1-2", 0o700),
    ]
    empty_fields = [directory(place / f".runbook-{it}", 0o700) for it in ("0--1-2-3", "-0-1-2-3", "0-1-2-3-")]
    for one in empty_fields:  # so old that only the name can spare it
        os.utime(one, (0, 0))
    stay += empty_fields
    (place / f"{base}3").write_text("a file")
    (place / f"{base}4").symlink_to(target)
    ask(("bash",), f"safe_enter {place} && safe_tidy")
    assert {*place.iterdir()} == {*stay, place / f"{base}3", place / f"{base}4"}
    assert (target / "keep").exists()


def test_another_user_removes_only_what_is_its_own(ground):
    made, left = workshop(("bash",), ground)
    made.communicate("\n", timeout=60)
    place = directory(ground / "place", 0o1777)
    os.rename(left, place / left.name)
    own = give(directory(place / f"{left.name}1", 0o700))
    assert ask(("bash",), f"safe_enter {place} && safe_tidy", user=STRANGER) == (0, "")
    assert (own.exists(), (place / left.name / "copy").exists()) == (False, True)


def test_links_in_what_was_left_are_not_followed(ground):
    made, left = workshop(("bash",), ground)
    made.communicate("\n", timeout=60)
    keep = directory(ground / "keep")
    (keep / "file").write_text("x")
    (left / "link").symlink_to(keep)
    ask(("bash",), f"safe_enter {ground} && safe_tidy")
    assert ([*ground.iterdir()], (keep / "file").exists()) == ([keep], True)
