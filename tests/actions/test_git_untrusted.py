"""Law 9 for git: root runs nobody's code in a work tree of a stranger's, follows nothing of theirs, leaves no trace."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from runbook.execution.diagnosis.probe_types import ProbeAnswer
from runbook.library.system.facts.git import Tree, ask_tree, clone, update
from tests.actions.git_repositories import Origin, git
from tests.support.another_user import exchange_before, listing, often, swapping
from tests.support.real_processes import Machine
from tests.support.run_step import Taken, see, take

STRANGER = 4242
pytestmark = pytest.mark.real("git", "root", "setpriv")


@pytest.fixture
def ground(monkeypatch) -> Iterator[Path]:
    """A directory of root's that everybody may look into."""
    for it in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(it, "/dev/null")
    folder = Path("/var/tmp") / f"runbook-git-{os.getpid()}-{os.urandom(4).hex()}"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


class Place:
    """A repository of root's, a clone of it that is one commit behind, and a program that leaves a mark when run."""

    def __init__(self, ground: Path) -> None:
        self.ground, self.tree, self.mark = ground, ground / "tree", ground / "marks"
        self.mark.mkdir(mode=0o777)
        self.mark.chmod(0o777)
        self.program = ground / "program"
        self.program.write_text(f'#!/bin/sh\n: >"{self.mark}/$(id -u)-${{0##*/}}-$$"\ncat\nexit 1\n')
        self.program.chmod(0o755)
        self.origin = Origin(ground / "origin")
        (self.origin.folder / "sub").mkdir()
        (self.origin.folder / "sub/file").write_text("one")
        git(self.origin.folder, "add", "sub")
        self.before = self.origin.commit("before")
        git(ground, "clone", "-q", self.origin.url, str(self.tree))
        (self.origin.folder / "sub/file").write_text("two")
        git(self.origin.folder, "add", "sub")
        self.after = self.origin.commit("after")

    def take(self, **values) -> Taken:
        args = {"repo": self.origin.url, "path": str(self.tree), "ref": "main", **values}
        return take("git_checkout", args)

    def marks(self) -> list[str]:
        return sorted(it.name for it in self.mark.iterdir())

    def head(self) -> str:
        return (self.tree / ".git/refs/heads/main").read_text().strip()

    def arm(self) -> None:
        """Set up the program everywhere in the tree where git would run one."""
        for key in (
            *("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "core.gitProxy"),
            *("credential.helper", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "gpg.program"),
            *("diff.external", "diff.evil.textconv", "diff.evil.command", "merge.evil.driver", "alias.status"),
            *("remote.origin.uploadpack", "core.alternateRefsCommand", "uploadpack.packObjectsHook", "sequence.editor"),
        ):
            git(self.tree, "config", key, str(self.program))
        git(self.tree, "config", "core.hooksPath", str(self.tree / ".git/hooks"))
        (self.tree / ".git/hooks").mkdir(exist_ok=True)
        for it in ("post-checkout", "post-merge", "reference-transaction", "post-index-change", "pre-auto-gc"):
            shutil.copy(self.program, self.tree / ".git/hooks" / it)
        (self.tree / ".git/info/attributes").write_text("* diff=evil merge=evil\n")
        os.utime(self.tree / "file", (1, 1))  # so that its content is inspected

    def filtered(self) -> None:
        (self.tree / ".git/info/attributes").write_text("* filter=evil\n")


@pytest.fixture
def place(ground) -> Place:
    return Place(ground)


def give(path: Path, uid: int = STRANGER) -> None:
    for it in (path, *path.rglob("*")) if path.is_dir() and not path.is_symlink() else (path,):
        os.chown(it, uid, uid, follow_symlinks=False)


def test_the_marks_are_left_where_nothing_is_done_about_it(place):
    """What makes the other tests worth something: git by itself runs the stranger's programs."""
    place.arm()
    give(place.tree)
    subprocess.run(["git", "-c", f"safe.directory={place.tree}", "-C", place.tree, "status", "-s"], check=False)
    assert any("0-program" in it for it in place.marks())


def test_in_a_tree_of_a_strangers_nothing_runs_and_the_stranger_is_named(place):
    place.arm()
    place.filtered()
    give(place.tree)
    taken = place.take(allowed_roots=[str(place.ground)])
    assert (taken.status, taken.writes, place.marks()) == ("blocked", [], [])
    assert taken.why == (
        f"{place.tree} belongs to {STRANGER}, who could exchange what is in it meanwhile: "
        f"give the step `become: {STRANGER}`"
    )


def test_in_a_tree_of_roots_git_runs_no_program_either_and_checks_out(place):
    place.arm()
    taken = place.take()
    assert (taken.status, place.marks(), place.head()) == ("changed", [], place.after), taken.why


def test_a_filter_that_would_have_to_run_is_told_and_the_tree_is_not_taken_for_broken(place):
    place.arm()
    place.filtered()
    taken = place.take(allowed_roots=[str(place.ground)])
    assert (taken.writes, place.marks(), place.head()) == ([], [], place.before)
    assert "filter 'evil' failed" in taken.why
    assert "git's filters are not run" in taken.why


def theirs(ground: Path) -> Path:
    folder = ground / "theirs"
    folder.mkdir()
    give(folder)
    return folder


def own_dot_git(place: Place) -> None:
    give(place.tree / ".git")


def own_config(place: Place) -> None:
    give(place.tree / ".git/config")


def wide_config(place: Place) -> None:
    (place.tree / ".git/config").chmod(0o666)


def wide_objects(place: Place) -> None:
    (place.tree / ".git/objects/info").chmod(0o777)


def group_refs(place: Place) -> None:
    """Of the group 0, too: who is in it cannot be known everywhere."""
    (place.tree / ".git/refs/heads").chmod(0o775)


def gitdir_elsewhere(place: Place) -> None:
    away = theirs(place.ground) / "git"
    (place.tree / ".git").rename(away)
    give(away)
    (place.tree / ".git").write_text(f"gitdir: {away}\n")


def common_elsewhere(place: Place) -> None:
    away = theirs(place.ground) / "git"
    shutil.copytree(place.tree / ".git", away)
    give(away)
    (place.tree / ".git/commondir").write_text(f"{away}\n")


def included(place: Place) -> None:
    config = theirs(place.ground) / "config"
    config.write_text(f"[core]\n\tfsmonitor = {place.program}\n")
    give(config)
    git(place.tree, "config", "include.path", str(config))


def alternates(place: Place) -> None:
    away = theirs(place.ground) / "more"
    git(place.ground, "init", "-q", "--bare", str(away))
    give(away)
    (place.tree / ".git/objects/info/alternates").write_text(f"{away}/objects\n")


def link_in_git(place: Place) -> None:
    away = theirs(place.ground) / "hooks"
    (place.tree / ".git/refs").rename(away)
    give(away)
    (place.tree / ".git/refs").symlink_to(away)


def tracked_directory(place: Place) -> None:
    give(place.tree / "sub")


def partial(place: Place) -> None:
    git(place.tree, "config", "remote.origin.promisor", "true")


@pytest.mark.parametrize(
    "ways",
    [
        *(own_dot_git, own_config, wide_config, wide_objects, group_refs, gitdir_elsewhere, common_elsewhere, included),
        *(alternates, link_in_git, tracked_directory, partial),
    ],
)
def test_what_leads_to_a_stranger_or_fetches_by_itself_is_refused(place, ways: Callable[[Place], None]):
    place.arm()
    ways(place)
    taken = place.take(allowed_roots=[str(place.ground)])
    assert (taken.status, taken.writes, place.marks()) == ("blocked", [], []), taken.why
    assert (place.tree / "file").read_text() == "before"


def test_a_directory_of_a_strangers_without_files_of_gits_is_no_obstacle(place):
    outputs = place.tree / "outputs"
    outputs.mkdir()
    give(outputs)
    taken = place.take()
    assert (taken.status, place.head()) == ("changed", place.after), taken.why


def test_a_directory_of_a_strangers_that_the_wanted_commit_writes_into_is(place):
    """Its owner would exchange it for a link while git writes."""
    (place.origin.folder / "outputs").mkdir()
    (place.origin.folder / "outputs/new").write_text("x")
    git(place.origin.folder, "add", "outputs")
    place.origin.commit("new")
    outputs = place.tree / "outputs"
    outputs.mkdir()
    give(outputs)
    taken = place.take()
    assert (taken.status, list(outputs.iterdir()), place.head()) == ("failed", [], place.before)
    assert f"{outputs} belongs to {STRANGER}" in taken.why


def test_a_work_tree_is_where_it_was_asked_for_whatever_the_configuration_says(place):
    (place.ground / "elsewhere").mkdir()
    git(place.tree, "config", "core.worktree", str(place.ground / "elsewhere"))
    assert place.take().status == "changed"
    assert list((place.ground / "elsewhere").iterdir()) == []
    assert (place.tree / "file").read_text() == "after"


def test_the_home_of_somebody_else_holds_no_configuration(place, monkeypatch):
    home = theirs(place.ground)
    lines = ["[core]", f"fsmonitor = {place.program}", '[url "file:///nowhere"]', "insteadOf = file:///"]
    (home / ".gitconfig").write_text("\n".join(lines))
    give(home / ".gitconfig")
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    monkeypatch.setenv("HOME", str(home))
    assert place.take().status == "changed"
    assert place.marks() == []


def test_a_repository_of_a_strangers_on_this_host_is_not_read_by_root(place):
    give(place.origin.folder)
    taken = place.take()
    assert (taken.status, taken.writes) == ("blocked", [])
    assert f"become: {STRANGER}" in taken.why


def test_root_clones_into_no_directory_of_a_strangers(place):
    yard = theirs(place.ground)
    taken = place.take(path=str(yard / "new"))
    assert (taken.status, taken.writes, list(yard.iterdir())) == ("blocked", [], [])
    assert f"give the step `become: {STRANGER}`" in taken.why


def test_a_broken_git_is_not_sought_in_the_directories_above(place):
    """The repository around it is another one."""
    inner = place.tree / "inner"
    (inner / ".git").mkdir(parents=True)
    taken = place.take(path=str(inner))
    assert "a broken work tree" in taken.why


class Guarded(BaseHTTPRequestHandler):
    """A repository that asks for a password."""

    def do_GET(self) -> None:
        known = self.headers.get("Authorization", "").startswith("Basic ")
        self.send_response(200 if known else 401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.end_headers()
        if known and "/info/refs" in self.path:
            self.wfile.write(b"%s\trefs/heads/main\n" % (b"1" * 40))

    def log_message(self, *words: object) -> None:
        pass


@pytest.mark.parametrize("how", ["{}", "!{}"])
def test_a_look_asks_a_credential_helper_and_tells_it_nothing(ground, monkeypatch, how):
    """git tells a helper what it has just had from it, and the helper writes that down."""
    asked, helper, config = ground / "asked", ground / "helper", ground / "config"
    told = '[ "$1" != get ] || printf "%s\\n" username=u password=p'
    helper.write_text(f'#!/bin/sh\necho "$1" >>{asked}\ncat >/dev/null\n{told}\n')
    helper.chmod(0o755)
    config.write_text(f'[credential]\n\thelper = "{how.format(helper)}"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    with ThreadingHTTPServer(("127.0.0.1", 0), Guarded) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/x.git"
        seen = see("git_checkout", {"repo": url, "path": str(ground / "new"), "ref": "main"})
        server.shutdown()
    assert isinstance(seen, ProbeAnswer), seen
    assert (seen.state.wanted, asked.read_text()) == ("1" * 40, "get\n")


LOOKED = Tree(kind="tree", head="0" * 40, branch="main", wanted="0" * 40, ref_kind="branch")
RACED = {
    "look": lambda at, repo: ask_tree(at, repo, "main"),
    "update": lambda at, repo: update(LOOKED, at, repo, "main"),
    "clone": lambda at, repo: clone(LOOKED, at, repo, "main"),
}


@pytest.fixture
def raced(place):
    """A function that makes a directory of that mode, with a copy of root's tree in it that is a stranger's and armed."""

    def make(mode: int) -> tuple[Path, Path]:
        yard = place.ground / "yard"
        yard.mkdir()
        yard.chmod(mode)
        shutil.copytree(place.tree, yard / "real")
        tree, place.tree = place.tree, yard / "real"
        place.arm()
        give(yard / "real")
        if mode == 0o755:
            os.chown(yard, STRANGER, STRANGER)
        return yard, tree

    return make


def of_root(yard: Path) -> list[str]:
    """Which names there are root's."""
    return sorted(it.name for it in (yard, *yard.iterdir()) if it.lstat().st_uid == 0)


@pytest.mark.parametrize("first", ["directory", "link"])
@pytest.mark.parametrize("mode", [0o755, 0o1777], ids=["their own directory", "a shared directory"])
@pytest.mark.parametrize("name", RACED)
def test_who_exchanges_a_tree_for_a_link_right_before_each_step_has_nothing_run_and_nothing_changed(
    place, raced, name, mode, first
):
    yard, tree = raced(mode)
    before = listing(tree)
    command = RACED[name](str(yard / "place"), place.origin.url)
    exchange = exchange_before(["cd", "stat", "git"], yard, tree, first)
    done = Machine().run(replace(command, script=exchange + command.script))[0]
    assert (place.marks(), listing(tree)) == ([], before)
    assert done.exit_code != 0 or name == "look"
    assert of_root(yard) in ([], ["yard"])


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "mode"), [("look", 0o755), ("look", 0o1777), ("update", 0o755), ("clone", 0o1777)],
    ids=["look-their own directory", "look-a shared directory", "update-their own directory", "clone-a shared directory"],
)  # fmt: skip
def test_who_exchanges_a_tree_for_a_link_has_nothing_run_and_nothing_changed(place, raced, name, mode):
    """In 200 tries of the probe, and 60 of what changes (all were run 200 times in both directories when this was written)."""
    yard, tree = raced(mode)
    before = listing(tree)
    with swapping(yard, tree):
        said = often(RACED[name](str(yard / "place"), place.origin.url), times=200 if name == "look" else 60)
    assert (place.marks(), listing(tree)) == ([], before)
    assert "try over: 0" not in said or name == "look"
    assert of_root(yard) in ([], ["yard"])
