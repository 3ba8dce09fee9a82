"""Work trees of a real git, from a repository on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runbook.errors import ConfigError
from runbook.execution.diagnosis.probe_types import ProbeFailure
from runbook.language.arguments import build
from runbook.library.system import git_checkout
from runbook.values.plan import Blocked
from tests.actions.git_repositories import Origin, git
from tests.support.probe_driver import drive
from tests.support.real_processes import Machine, each, shell
from tests.support.run_step import see, take
from tests.support.tables import every_row

real = pytest.mark.real("git")


@pytest.fixture
def origin(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    return Origin(tmp_path / "origin")


@pytest.fixture
def tree(tmp_path):
    return tmp_path / "work" / "tree of mine"


@pytest.fixture
def at(origin, tree):
    tree.parent.mkdir()

    def step(ref: str = "main", between=None, **values):
        return take("git_checkout", {"repo": origin.url, "path": str(tree), "ref": ref, **values}, between=between)

    return step


def head(tree: Path) -> str:
    return git(tree, "rev-parse", "HEAD")


@real
def test_what_is_not_there_is_cloned_and_the_second_run_does_nothing(origin, tree, at):
    taken = at()
    assert (taken.status, taken.result.verified) == ("changed", True), taken.why
    assert (head(tree), (tree / "file").read_text(), git(tree, "branch", "--show-current")) == (
        origin.first,
        "one",
        "main",
    )
    assert git(tree, "rev-parse", "--abbrev-ref", "main@{upstream}") == "origin/main"
    again = at()
    assert (again.status, again.writes) == ("ok", [])
    assert [it.name for it in tree.parent.iterdir()] == [tree.name]


@real
def test_an_empty_directory_is_cloned_into(origin, tree, at):
    tree.mkdir()
    assert at().status == "changed"
    assert head(tree) == origin.first


@real
@pytest.mark.slow
def test_a_branch_that_went_on_is_fetched_and_checked_out(origin, tree, at):
    at()
    (tree / "untracked").touch()
    second = origin.commit("two")
    taken = at()
    assert (taken.status, head(tree), (tree / "file").read_text()) == ("changed", second, "two")
    assert taken.planned.planned == f"check out main ({second[:12]}) in {tree}, from {origin.first[:12]}"
    assert (tree / "untracked").exists()


@real
@pytest.mark.slow
@pytest.mark.soak
def test_a_tag_and_a_commit_are_checked_out_without_a_branch(origin, tree, at):
    second = origin.commit("two")
    at()
    assert at("v1").status == "changed"
    assert head(tree) == origin.first
    assert at("v1").status == "ok"
    third = origin.commit("three")
    assert at(third).status == "changed"
    assert head(tree) == third
    assert at(second).status == "changed"
    assert git(tree, "branch", "--show-current") == ""
    shutil.rmtree(tree)
    assert at(origin.first).status == "changed"
    assert head(tree) == origin.first


@pytest.mark.slow
@real
def test_local_changes_are_left_alone_and_named(origin, tree, at):
    at()
    origin.commit("two")
    (tree / "file").write_text("mine")
    taken = at()
    assert (taken.status, taken.writes) == ("blocked", [])
    assert taken.why == f"{tree} has local changes, which are left alone: file"
    assert (tree / "file").read_text() == "mine"


@real
@pytest.mark.slow
@pytest.mark.soak
def test_commits_of_ones_own_are_left_alone(origin, tree, at):
    at()
    (tree / "file").write_text("mine")
    git(tree, "commit", "-q", "-am", "mine")
    mine = head(tree)
    assert "has local commits on top of main" in at().why
    origin.commit("two")
    taken = at()
    assert (taken.status, head(tree)) == ("failed", mine)
    assert "nothing was checked out" in taken.why


@real
@pytest.mark.slow
def test_a_commit_that_is_on_no_branch_is_not_lost(origin, tree, at):
    """Mutants: git.py without its look for a branch that has the commit."""
    at()
    git(tree, "checkout", "-q", "--detach")
    (tree / "file").write_text("mine")
    git(tree, "commit", "-q", "-am", "mine")
    mine = head(tree)
    origin.commit("two")
    taken = at()
    assert taken.status in ("failed", "blocked"), taken.why
    assert head(tree) == mine


@real
@pytest.mark.slow
@pytest.mark.soak
def test_an_ignored_file_is_not_overwritten(origin, tree, at):
    """Mutants: git.py without ``--no-overwrite-ignore``."""
    at()
    (tree / ".git/info/exclude").write_text("outputs\n")
    (tree / "outputs").write_text("mine")
    (origin.folder / "outputs").write_text("theirs")
    git(origin.folder, "add", "-f", "outputs")
    origin.commit("two")
    taken = at()
    assert taken.status != "changed", taken.why
    assert (tree / "outputs").read_text() == "mine"


@real
def test_a_tree_of_another_repository_is_left_alone(origin, tree, at, tmp_path):
    other = Origin(tmp_path / "other")
    other.commit("else")
    git(tmp_path, "clone", "-q", other.url, str(tree))
    assert f"has the origin {other.url}, not {origin.url}" in at().why


def broken(tree: Path, kind: str) -> None:
    tree.mkdir(exist_ok=True)
    if kind == "foreign":
        (tree / "left").write_text("over")
    elif kind == "no repository":
        (tree / ".git").mkdir()
    elif kind == "interrupted":
        git(tree, "init", "-q")
    elif kind == "index":
        (tree / ".git/index").write_bytes(b"rubbish")
    else:
        shutil.rmtree(tree / ".git/objects")
        (tree / ".git/objects").mkdir()


SOAK_KINDS = [pytest.param(it, marks=pytest.mark.soak) for it in ("index", "interrupted", "objects")]


@pytest.mark.slow
@real
@pytest.mark.parametrize("kind", ["foreign", "no repository", *SOAK_KINDS])
def test_what_is_broken_is_replaced_only_below_an_allowed_root(origin, tree, at, kind):
    if kind in ("index", "objects"):
        at()
    broken(tree, kind)
    taken = at()
    assert (taken.status, taken.writes) == ("blocked", [])
    assert "only replaced below `allowed_roots`" in taken.why
    assert "lies outside" in at(allowed_roots=["/surely/elsewhere", str(origin.folder)]).why
    taken = at(allowed_roots=[str(tree.parent)])
    assert (taken.status, taken.result.risk.value) == ("changed", "deletes-data"), taken.why
    assert head(tree) == origin.first
    (aside,) = [it for it in tree.parent.iterdir() if it != tree]
    assert aside.name.startswith(f"{tree.name}.replaced-"), "what git does not have is nowhere else"
    assert not (tree / "left").exists()
    assert kind != "foreign" or (aside / "left").read_text() == "over"


@real
def test_a_clone_that_fails_leaves_what_was_there(origin, tree, at):
    broken(tree, "foreign")
    between = lambda: shutil.move(origin.folder, f"{origin.folder}.away")  # noqa: E731 - one line says it
    taken = at(allowed_roots=[str(tree.parent)], between=between)
    assert taken.status in ("failed", "blocked")
    assert (tree / "left").read_text() == "over"
    assert [it.name for it in tree.parent.iterdir()] == [tree.name]


@real
@pytest.mark.parametrize("name", each(["dash", "bash", "busybox"]))
@pytest.mark.parametrize(
    "drift",
    ["replaced", "edited", *(pytest.param(it, marks=pytest.mark.slow) for it in ("came", "filled", "committed"))],
)
def test_the_change_itself_looks_once_more(origin, tree, at, tmp_path, name, drift):
    args = build(
        git_checkout.Args, {"repo": origin.url, "path": str(tree), "ref": "main", "allowed_roots": [str(tree.parent)]}
    )
    if drift in ("committed", "edited"):
        at()
        origin.commit("two")
    elif drift == "replaced":
        broken(tree, "foreign")
    elif drift == "filled":
        tree.mkdir()
    machine = Machine(shell=shell(name, tmp_path))
    decision = git_checkout.decide(args, drive(git_checkout.probe(args), machine))
    if drift == "replaced":
        tree.rename(tree.parent / "aside")
    tree.mkdir(exist_ok=True)
    (tree / "file").write_text("another's")
    if drift == "committed":
        git(tree, "commit", "-q", "-am", "mine")
    done = machine.run(*decision.commands)[0]
    assert done.exit_code == 10, done.stderr
    assert (tree / "file").read_text() == "another's"
    assert not [it for it in tree.parent.iterdir() if it.name.startswith(".runbook")]


@real
@pytest.mark.slow
def test_what_moved_on_after_the_plan_is_not_what_was_shown(origin, tree, at):
    at()
    origin.commit("two")
    taken = at(between=lambda: origin.commit("three"))
    assert (taken.status, head(tree)) == ("drifted", origin.first)


@real
def test_a_repository_out_of_reach_is_not_known(tree, tmp_path):
    outcome = see("git_checkout", {"repo": f"file://{tmp_path}/none", "path": str(tree), "ref": "main"})
    assert isinstance(outcome, ProbeFailure)
    assert "main could not be resolved" in outcome.why


@real
def test_a_ref_that_is_not_there_is_told(at, origin):
    assert at("nosuch").why == f"{origin.url} has no branch or tag nosuch"


@real
def test_a_link_is_not_followed(origin, tree, at, tmp_path):
    (tmp_path / "real").mkdir()
    tree.symlink_to(tmp_path / "real")
    assert "symbolic link" in at(allowed_roots=[str(tmp_path)]).why


@pytest.mark.real("busybox")
def test_a_host_without_git_is_told_what_to_do(tmp_path):
    args = build(git_checkout.Args, {"repo": "file:///x", "path": "/srv/x", "ref": "main"})
    state = drive(git_checkout.probe(args), Machine(shell=shell("only busybox", tmp_path)))
    decision = git_checkout.decide(args, state)
    assert isinstance(decision, Blocked)
    assert "git is not installed on this host" in decision.why


GOOD = {"repo": "https://example.org/x.git", "path": "/srv/x", "ref": "main"}


@every_row(
    ("key", "value", "words"),
    [
        ("repo", "--upload-pack=x", "not the address"),
        ("repo", "ext::sh -c id", "not the address"),
        ("repo", "https://me:hunter2@example.org/x.git", "a password in the address"),
        ("path", "srv/x", "absolute"),
        ("path", "/srv/../x", "absolute"),
        ("path", "/etc", "is not allowed for a work tree"),
        ("path", "/srv/*", "is not allowed for a work tree"),
        ("ref", "-x", "not a valid name of a branch"),
        ("ref", "a..b", "not a valid name of a branch"),
        ("ref", "main@{1}", "not a valid name of a branch"),
        ("allowed_roots", ["/"], "directory of your own"),
        ("allowed_roots", ["/usr"], "directory of your own"),
    ],
)
def test_a_mistake_in_the_arguments_is_refused(key, value, words):
    build(git_checkout.Args, GOOD)
    with pytest.raises(ConfigError, match=words) as raised:
        build(git_checkout.Args, {**GOOD, key: value})
    assert "hunter2" not in str(raised.value)
