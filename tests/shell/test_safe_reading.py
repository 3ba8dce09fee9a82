"""A file that another user of the host may exchange is read, and never another one in its place (law 9).

Real shells, as root, against files and links of an unprivileged user. Each test names the mutants that it has been
seen to kill.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runbook.library.files import log_scan
from runbook.library.system.starts import ask_logs, read_logs
from runbook.shell import VIEW
from runbook.values.types import Unknown
from tests.support.another_user import SHELLS, STRANGER, directory, exchange_before, give, swapping
from tests.support.real_processes import Machine

pytestmark = pytest.mark.real("root", "setpriv")
OTHER = 4243
READ = """
for file; do
    if view_find "$file"; then echo "$exposed $(view_end 100 "$(view_size)")"; else echo "no: $why ($owner)"; fi
done
"""


def read(*files: Path, shell: tuple[str, ...] = ("bash", "--posix"), script: str = VIEW, by: int = 0) -> list[str]:
    """What is read of *files*, one line each, or why it is not."""
    as_user = ["setpriv", f"--reuid={by}", f"--regid={by}", "--clear-groups"] if by else []
    argv = [*as_user, *shell, "-c", f"{script}\nIFS='\n'\n{READ}", "sh", *map(str, files)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd="/")
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


def file(path: Path, text: str, uid: int = 0, mode: int = 0o600) -> Path:
    path.write_text(f"{text}\n")
    path.chmod(mode)
    return give(path, uid)


def link(path: Path, to: Path | str, uid: int) -> Path:
    path.symlink_to(to)
    return give(path, uid)


@pytest.fixture
def theirs(ground: Path) -> Path:
    return give(directory(ground / "theirs"))


@pytest.fixture
def roots(ground: Path) -> Path:
    return directory(ground / "roots")


@pytest.mark.parametrize("shell", [it for it in SHELLS if it.id != "busybox"])
class TestWhatMayBeRead:
    def test_a_log_in_our_own_place_is_read_as_ever(self, shell, roots):
        assert read(file(roots / "a b.log", "x"), shell=shell) == ["no x"]

    def test_a_log_of_another_user_is_read(self, shell, theirs):
        assert read(file(theirs / "a.log", "x", STRANGER), shell=shell) == ["yes x"]

    def test_a_link_of_theirs_is_followed_to_what_is_theirs(self, shell, theirs):
        give(directory(theirs / "run-1"))
        file(theirs / "run-1/a.log", "x", STRANGER)
        link(theirs / "latest", "run-1", STRANGER)
        link(theirs / "latest.log", "./latest/../run-1/a.log", STRANGER)
        assert read(theirs / "latest/a.log", theirs / "latest.log", shell=shell) == ["yes x", "yes x"]

    def test_a_link_of_ours_is_followed_wherever_it_leads(self, shell, theirs, roots):
        mine = file(roots / "secret", "s")
        place = link(roots / "latest.log", file(theirs / "a.log", "x", STRANGER), 0)
        assert read(place, link(roots / "b.log", mine, 0), shell=shell) == ["yes x", "no s"]

    def test_a_link_of_theirs_to_what_only_we_may_read_is_refused(self, shell, theirs, roots):
        """Mutants: view.sh ``makers`` left empty; ``view_permitted`` returning at once."""
        (said,) = read(link(theirs / "a.log", file(roots / "secret", "s"), STRANGER), shell=shell)
        assert said == (
            f"no: {theirs}/a.log is a symbolic link of {STRANGER}'s to {roots}/secret, which not everybody may read "
            f"({STRANGER})"
        )

    def test_a_directory_that_they_made_a_link_is_no_way_there_either(self, shell, theirs, roots):
        file(roots / "x.log", "s")
        link(theirs / "logs", roots, STRANGER)
        (said,) = read(theirs / "logs/x.log", shell=shell)
        assert "not everybody may read" in said

    def test_a_link_of_theirs_to_a_third_users_private_file_is_refused(self, shell, theirs, ground):
        """Mutants: view.sh comparing the owner of the file with root instead of with the maker of the link."""
        third = give(directory(ground / "third"), OTHER)
        (said,) = read(link(theirs / "a.log", file(third / "a.log", "s", OTHER), STRANGER), shell=shell)
        assert "not everybody may read" in said

    def test_what_everybody_may_read_is_read_through_any_link(self, shell, theirs, roots):
        assert read(link(theirs / "a.log", file(roots / "a", "x", mode=0o644), STRANGER), shell=shell) == ["yes x"]

    def test_in_a_directory_that_is_closed_nothing_is_for_everybody(self, shell, theirs, roots):
        """Mutants: view.sh ``view_public`` without its loop."""
        inner = directory(roots / "inner")
        place = file(inner / "a", "s", mode=0o644)
        roots.chmod(0o700)
        (said,) = read(link(theirs / "a.log", place, STRANGER), shell=shell)
        assert "not everybody may read" in said

    @pytest.mark.parametrize("kind", ["fifo", "directory", "device", "nothing", "loop"])
    def test_what_is_no_regular_file_is_not_opened(self, shell, theirs, kind):
        """Mutants: view.sh taking what is not a regular file."""
        place = theirs / "a.log"
        if kind == "fifo":
            os.mkfifo(place)
        elif kind == "directory":
            place.mkdir()
        else:
            link(place, {"device": "/dev/zero", "nothing": "/none", "loop": "a.log"}[kind], STRANGER)
        (said,) = read(place, shell=shell)
        assert said.startswith("no: ")

    def test_in_a_shared_directory_a_file_with_two_names_may_be_anybodys(self, shell, ground, roots):
        """Mutants: view.sh without the case for hard links; without ``view_links``."""
        shared = directory(ground / "shared", 0o1777)
        os.link(file(roots / "secret", "s"), shared / "a.log")
        os.link(file(roots / "open", "x", mode=0o644), shared / "b.log")
        weak = VIEW.replace("/proc/sys/fs/protected_hardlinks", "/none")
        said = read(shared / "a.log", shared / "b.log", shell=shell, script=weak)
        assert "has 2 names (hard links), and not everybody may read it" in said[0]
        assert said[1] == "yes x"

    def test_a_directory_that_was_looked_at_before_is_not_walked_to_again(self, shell, theirs, roots):
        """Mutants: view.sh keeping ``view_dir`` when a link has led elsewhere; when that failed."""
        file(theirs / "1.log", "1", STRANGER)
        link(theirs / "2.log", file(roots / "3.log", "no", mode=0o644), STRANGER)
        file(theirs / "3.log", "3", STRANGER)
        link(theirs / "4.log", "/none/4.log", STRANGER)
        file(theirs / "5.log", "5", STRANGER)
        paths = [theirs / f"{number}.log" for number in (1, 3, 2, 3, 4, 5, 1)]
        assert [it[-1] for it in read(*paths, shell=shell)] == ["1", "3", "o", "3", ")", "5", "1"]

    def test_an_ordinary_user_reads_what_is_theirs_and_what_everybody_may_read(self, shell, theirs, ground):
        third = give(directory(ground / "third"), OTHER)
        mine = file(theirs / "a.log", "x", STRANGER)
        open_to_all = file(third / "b.log", "y", OTHER, 0o644)
        lure = link(third / "c.log", mine, OTHER)
        said = read(mine, open_to_all, lure, shell=shell, by=STRANGER)
        assert said[:2] == ["no x", "yes y"]
        assert "not everybody may read" in said[2]


@pytest.mark.real("busybox")
def test_a_host_without_a_dd_that_follows_no_links_reads_nothing_that_others_can_exchange(theirs, roots):
    place = file(theirs / "a.log", "x", STRANGER)
    own, others = read(file(roots / "a.log", "x"), place, shell=("busybox", "sh"))
    assert own == "no x"
    assert "the dd of this host cannot keep from following links" in others


@pytest.mark.parametrize("how", ["log_scan", "starts"])
def test_what_is_not_read_is_said_with_its_reason_and_never_clean(theirs, roots, how):
    """Mutants: log_scan.py, start_times.py dropping the reason."""
    file(theirs / "good.log", "ERROR", STRANGER)
    link(theirs / "bad.log", file(roots / "secret", "ERROR password"), STRANGER)
    if how == "starts":
        logs = read_logs(Machine().run(ask_logs((f"{theirs}/*.log",)))[0])
        assert [it.text for it in logs.lines if it.text] == ["ERROR"]
        assert logs.unreadable == (f"{theirs}/bad.log",)
        (unread,) = logs.reasons
    else:
        state = scan(f"{theirs}/*.log")
        assert [it.text for it in state.matches] == ["ERROR"]
        assert state.unreadable == (f"{theirs}/bad.log",)
        state = scan(f"{theirs}/bad.log")
        assert isinstance(state.matches, Unknown)
        unread = state.matches.why
    assert "which not everybody may read; the host has no name for that user" in unread
    assert "password" not in unread


def scan(glob: str) -> log_scan.State:
    made = log_scan.Args(files=(glob,), signatures={"error": "ERROR"})
    probe = log_scan.probe(made)
    command = next(probe)
    try:
        probe.send(Machine().run(command)[0])
    except StopIteration as end:
        return end.value
    raise AssertionError("more than one command")


@pytest.mark.parametrize("first", ["directory", "link"])
def test_whoever_exchanges_the_directory_right_before_each_step_shows_us_nothing_of_roots(ground, roots, first):
    """Without the checks the same thief shows it where it is a directory at first.

    Mutants: view.sh going to a directory by its whole path; ``view_permitted`` returning at once.
    """
    folder = give(directory(ground / "folder"))
    file(give(directory(folder / "real")) / "a.log", "own", STRANGER)
    file(roots / "a.log", "secret")
    exchange = exchange_before(["cd"], folder, roots, first)
    assert read(folder / "place/a.log", script=f"{VIEW}\n{exchange}")[0] != "yes secret"
    careless = f'{exchange}\ncd -P -- "$1" && cat a.log'
    done = subprocess.run(["bash", "-c", careless, "sh", str(folder / "place")], capture_output=True, text=True)
    assert done.stdout in ("own\n", "secret\n")


@pytest.mark.soak
def test_whoever_exchanges_the_directory_meanwhile_shows_us_nothing_of_roots_in_200_tries(ground, roots):
    """Mutants: view.sh going to a directory by its whole path; ``view_permitted`` returning at once."""
    folder = give(directory(ground / "folder"))
    file(give(directory(folder / "real")) / "a.log", "own", STRANGER)
    file(roots / "a.log", "secret")
    again = "i=0; while [ $i -lt 200 ]; do i=$((i+1)); "
    careless = f'{again} cat -- "$1" 2>/dev/null; done; true'
    careful = f'{VIEW}\n{again} view_dir=""; view_find "$1" && view_end 100 "$(view_size)"; done; true'
    shown = []
    with swapping(folder, roots):
        for script in (careless, careful):
            argv = ["bash", "-c", script, "sh", str(folder / "place/a.log")]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=400, cwd="/")
            shown.append(set(done.stdout.split()))
    assert shown[0] == {"own", "secret"}, "else the exchange exchanges nothing"
    assert shown[1] <= {"own"}


EXCHANGE = """
cd() { # the stranger exchanges the names of where we are right before we go up
    [ "$2" != .. ] || setpriv --reuid=4242 --regid=4242 --clear-groups sh -c '
        [ ! -e "$1/decoy" ] || { mv "$1/place" "$1/aside" && mv "$1/decoy" "$1/place"; }' sh "$folder"
    command cd "$@"
}
"""


@pytest.mark.parametrize("shell", [("bash",), *(it for it in SHELLS if it.id != "busybox")])
def test_names_that_are_exchanged_on_the_way_up_open_no_closed_directory(ground, shell):
    """A file that everybody may read lies in a directory of a third user's that is closed, and that in the stranger's.

    Mutant: view.sh ``view_public`` with ``pwd -P``.
    """
    folder = give(directory(ground / "folder"))
    closed = give(directory(give(directory(folder / "place")) / "closed", 0o700), OTHER)
    inner = give(directory(give(directory(closed / "a"), OTHER) / "b"), OTHER)
    file(inner / "log", "secret", OTHER, 0o644)
    link(folder / "latest.log", "place/closed/a/b/log", STRANGER)
    for part in ("decoy", "decoy/closed", "decoy/closed/a"):
        give(directory(folder / part))
    link(folder / "decoy/closed/a/b", "/etc", STRANGER)  # and /etc/.. is the root
    careless = VIEW.replace("view_now=$(env pwd -P && echo x) || exit 1", "view_now=$(pwd -P && echo x) || exit 1")
    assert careless != VIEW
    if shell == ("bash",):
        assert read(folder / "latest.log", shell=shell, script=f"folder={folder}\n{careless}\n{EXCHANGE}") == [
            "yes secret"
        ]
        (folder / "place").rename(folder / "decoy")
        (folder / "aside").rename(folder / "place")
    (said,) = read(folder / "latest.log", shell=shell, script=f"folder={folder}\n{VIEW}\n{EXCHANGE}")
    assert "which not everybody may read" in said
    assert not (folder / "decoy").exists(), "the stranger has exchanged nothing"
