"""Law 9: root does not work in, trust or follow what another user of the host can rename, write or forge."""

from __future__ import annotations

import os
import subprocess

import pytest

from runbook.shell import SAFE
from tests.support.another_user import SHELLS, STRANGER, ask, directory, exchange_before, give, swapping

pytestmark = pytest.mark.real("root", "setpriv")


@pytest.mark.parametrize("shell", SHELLS)
class TestWhereRootWorks:
    """Root goes only where nobody else can exchange what is there."""

    def test_a_directory_of_roots_own_is_entered(self, shell, ground):
        assert ask(shell, 'safe_enter "$1" && pwd -P', str(ground)) == (0, str(ground))

    def test_a_link_of_roots_own_is_followed(self, shell, ground):
        inner = directory(ground / "inner")
        (ground / "link").symlink_to("inner")
        (ground / "away").symlink_to(ground / "link")
        assert ask(shell, 'safe_enter "$1" && pwd -P', f"{ground}/away/.") == (0, str(inner))

    def test_a_directory_of_a_stranger_is_not_entered_and_the_stranger_is_named(self, shell, ground):
        theirs = give(directory(ground / "theirs"))
        code, said = ask(shell, 'safe_enter "$1"', str(theirs))
        assert (code, said) == (
            1,
            f"no: {theirs} belongs to {STRANGER}, who could exchange what is in it meanwhile ({STRANGER})",
        )

    def test_nor_is_one_below_it_even_if_that_is_roots(self, shell, ground):
        below = directory(give(directory(ground / "theirs")) / "below")
        assert ask(shell, 'safe_enter "$1"', str(below))[0] == 1

    def test_nor_is_one_that_a_link_of_a_strangers_leads_to(self, shell, ground):
        theirs = give(directory(ground / "theirs"))
        give_link = theirs / "link"
        give_link.symlink_to("/etc")
        assert ask(shell, 'safe_enter "$1"', f"{give_link}")[0] == 1
        assert ask(shell, 'safe_enter "$1"', f"{give_link}/ssl/..")[0] == 1

    @pytest.mark.parametrize("mode", [0o777, 0o757, 0o775, 0o2775])
    def test_nor_is_one_that_others_can_write_to(self, shell, ground, mode):
        wide = directory(ground / "wide", mode)
        os.chown(wide, 0, STRANGER)
        assert ask(shell, 'safe_enter "$1"', str(wide))[0] == 1
        assert ask(shell, 'safe_enter "$1"', str(directory(wide / "below")))[0] == 1

    def test_nor_is_one_that_the_group_root_can_write_to(self, shell, ground):
        """Anybody may be a member of it, or be named by an ACL, which the ``ls`` of busybox does not show."""
        wide = directory(ground / "wide", 0o775)
        said = f"no: others (group 0, or an ACL) can write to {wide}, and exchange what is in it meanwhile: "
        assert ask(shell, 'safe_enter "$1"', str(wide)) == (1, f"{said}`chmod g-w {wide}` ()")

    def test_in_a_shared_directory_only_what_is_roots_counts(self, shell, ground):
        shared = directory(ground / "shared", 0o1777)
        (mine, theirs) = directory(shared / "mine"), give(directory(shared / "theirs"))
        (shared / "file").write_text("x")
        give(shared / "file")
        link = shared / "link"
        link.symlink_to("mine")
        assert ask(shell, 'safe_enter "$1" && echo "$shared"', str(shared)) == (0, "yes")
        assert ask(shell, 'safe_enter "$1" && echo "$shared"', str(mine)) == (0, "no")
        assert ask(shell, 'safe_enter "$1"', str(link))[0] == 0
        assert ask(shell, 'safe_enter "$1"', str(give(link)))[0] == 1
        assert ask(shell, 'safe_enter "$1"', str(theirs))[0] == 1
        assert ask(shell, 'safe_beside "$1"', str(shared / "file"))[0] == 1
        assert ask(shell, 'safe_beside "$1" && echo "$kind"', str(shared / "none")) == (0, "absent")

    def test_what_lies_beside_may_be_anybodys_for_its_directory_holds_it(self, shell, ground):
        theirs = give(directory(ground / "theirs"))
        assert ask(shell, 'safe_beside "$1" && echo "$name $kind"', str(theirs)) == (0, "theirs directory")

    def test_a_link_at_the_end_is_followed_only_if_asked(self, shell, ground):
        (ground / "file").write_text("x")
        (ground / "link").symlink_to("file")
        assert ask(shell, 'safe_beside "$1" && echo "$name $kind"', str(ground / "link")) == (0, "link link")
        assert ask(shell, 'safe_beside "$1" last && echo "$name $kind"', str(ground / "link")) == (0, "file file")

    @pytest.mark.parametrize(
        "path", ["relative", "", "/etc\n/passwd", "/etc/passwd/x", "/etc/none/x", "/proc/self/fd/0/x"]
    )
    def test_what_is_no_path_to_a_directory_is_refused(self, shell, path):
        assert ask(shell, 'safe_beside "$1"', path)[0] == 1

    def test_links_in_a_ring_come_to_an_end(self, shell, ground):
        (ground / "a").symlink_to("b")
        (ground / "b").symlink_to("a")
        code, said = ask(shell, 'safe_enter "$1"', str(ground / "a"))
        assert code == 1
        assert "too many symbolic links" in said


@pytest.mark.parametrize("shell", SHELLS)
class TestWhatIsMade:
    def test_missing_directories_are_made_on_safe_ground_only(self, shell, ground):
        assert ask(shell, 'safe_make_all "$1" && pwd -P', str(ground / "a/b//c")) == (0, str(ground / "a/b/c"))
        theirs = give(directory(ground / "theirs"))
        assert ask(shell, 'safe_make_all "$1"', str(theirs / "a/b"))[0] == 1
        assert list(theirs.iterdir()) == []

    def test_a_workshop_is_ours_alone_and_has_a_name_of_its_own(self, shell, ground):
        line = f'safe_enter {ground} && safe_workshop && one=$work && safe_workshop && [ "$one" != "$work" ] && ls -ld "$work"'
        code, said = ask(shell, line)
        assert code == 0
        assert said.startswith("drwx------")

    def test_a_directory_is_never_made_over_something(self, shell, ground):
        (ground / "there").symlink_to("/etc")
        assert ask(shell, f"safe_enter {ground} && safe_make there")[0] == 1

    def test_what_is_put_never_follows_a_link(self, shell, ground):
        (ground / "new").write_text("new")
        (ground / "inner").mkdir()
        (ground / "link").symlink_to("inner")
        code, _ = ask(shell, f"safe_enter {ground} && safe_put ./new link")
        assert (ground / "link").is_symlink() == (code != 0) == (shell[0] == "busybox")  # whose mv refuses instead
        assert list((ground / "inner").iterdir()) == []

    def test_what_is_put_never_goes_into_a_directory(self, shell, ground):
        (ground / "new").write_text("new")
        (ground / "inner").mkdir()
        assert ask(shell, f"safe_enter {ground} && safe_put ./new inner")[0] == 1
        assert list((ground / "inner").iterdir()) == []


def test_another_user_trusts_root_and_itself_alone(ground):
    mine, theirs = give(directory(ground / "mine")), give(directory(ground / "theirs"), STRANGER + 1)
    assert ask(("bash",), 'safe_enter "$1"', str(mine), user=STRANGER)[0] == 0
    assert ask(("bash",), 'safe_enter "$1"', str(ground), user=STRANGER)[0] == 0
    code, said = ask(("bash",), 'safe_enter "$1"', str(theirs), user=STRANGER)
    assert (code, f"({STRANGER + 1})" in said) == (1, True)


@pytest.mark.parametrize("first", ["directory", "link"])
@pytest.mark.parametrize("mode", [0o755, 0o1777], ids=["their own directory", "a shared directory"])
def test_whoever_exchanges_directories_right_before_each_step_wins_nothing(ground, mode, first):
    """Without the checks the same thief wins where it is a directory at first."""
    roots = directory(ground / "roots")
    yard = directory(ground / "yard", mode)
    if mode == 0o755:
        give(yard)
    exchange = exchange_before(["cd"], yard, roots, first)
    for way, wins in (('safe_enter "$1"', False), ('cd -P -- "$1"', first == "directory")):
        line = f"{SAFE}\n{exchange}\n{way} && : >got; true"
        subprocess.run(["bash", "-c", line, "sh", str(yard / "place")], capture_output=True, timeout=60)
        assert (roots / "got").exists() is wins


@pytest.mark.soak
@pytest.mark.parametrize("mode", [0o755, 0o1777], ids=["their own directory", "a shared directory"])
def test_whoever_exchanges_directories_wins_in_none_of_200_tries(ground, mode):
    roots = directory(ground / "roots")
    yard = directory(ground / "yard", mode)
    if mode == 0o755:
        give(yard)
    with swapping(yard, roots):
        line = 'i=0; while [ $i -lt 200 ]; do i=$((i+1)); ( safe_enter "$1" && echo in && : >got ); done; true'
        argv = ["bash", "-c", f"{SAFE}\n{line}", "sh", str(yard / "place")]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=110)
    assert done.stdout == ""
    assert list(roots.iterdir()) == []


@pytest.mark.soak
def test_without_the_check_the_same_thief_wins(ground):
    """What makes the test above worth something."""
    roots, yard = directory(ground / "roots"), give(directory(ground / "yard"))
    with swapping(yard, roots):
        line = 'i=0; while [ $i -lt 200 ]; do i=$((i+1)); ( cd -P -- "$1" && : >got ); done; true'
        subprocess.run(["bash", "-c", line, "sh", str(yard / "place")], capture_output=True, timeout=110)
    assert (roots / "got").exists()


@pytest.mark.real("lab")
@pytest.mark.parametrize("shell", SHELLS)
def test_the_machine_s_own_directories_are_roots_in_a_user_namespace_too(shell):
    """Mutant: safe.sh with ``read`` for ``cat``: the number ends after its first digit."""
    by = ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "unshare", "-r")
    assert ask((*by, *shell), 'safe_enter "$1" && pwd -P', "/usr") == (0, "/usr")
