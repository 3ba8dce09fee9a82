"""A git work tree on the host and the repository that it comes from: their state, and how the tree is updated."""

from __future__ import annotations

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.shell import GIT, script
from runbook.values.command import Command, Completed, read_script, write_script


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The work tree at a path, and the commit that is wanted there."""

    kind: str
    """``no git``, ``absent``, ``empty`` (a directory), ``tree``, ``broken``, ``foreign`` (not git's) or ``other``."""
    inode: str = ""
    """``device:inode``."""
    head: str = ""
    branch: str = ""
    """Empty where no branch is checked out."""
    origin: str = ""
    changes: tuple[str, ...] = ()
    """Files under version control that were changed, as ``git status --porcelain`` shows them."""
    wanted: str = ""
    """The commit that the ref means in the repository; empty: it is not there."""
    ref_kind: str = ""
    """``branch``, ``tag`` or ``commit``."""
    ahead: bool = False
    """The tree has commits on top of the one that is wanted."""


def ask_tree(path: str, repo: str, ref: str) -> Command:
    """Ask for the state of *path*, and for the commit that *ref* names in *repo*."""
    return read_script(_IS_THERE + GIT + _LOOK, path, repo, ref)


_IS_THERE = """
command -v git >/dev/null || { echo 'kind no git'; exit 0; }
"""


_LOOK = script(__package__, "git_probe")
"""A branch comes before a tag of the same name; of a tag with a message it is the commit that counts (``^{}``)."""


def read_tree(done: Completed) -> Tree:
    """The answer to ``ask_tree``.  Raises ProbeError."""
    if done.timed_out:
        raise ProbeError("git did not answer in time: check that the host can reach the repository")
    if done.exit_code != 0:
        raise ProbeError(" ".join(done.stderr.split()) or f"git gave no answer (exit code {done.exit_code})")
    lines = [line.partition(" ")[::2] for line in done.stdout.split("\n") if line]
    reported = dict(lines)
    if "kind" not in reported or ("wanted" not in reported and reported["kind"] != "no git"):
        raise ProbeError("the output of git is incomplete")
    wanted, _, ref_kind = reported.get("wanted", "").partition(" ")
    return Tree(
        kind=reported["kind"],
        inode=reported.get("inode", ""),
        head=reported.get("head", ""),
        branch=reported.get("branch", ""),
        origin=reported.get("origin", ""),
        changes=tuple(rest for word, rest in lines if word == "change"),
        wanted=wanted,
        ref_kind=ref_kind,
        ahead=reported.get("ahead") == "yes",
    )


def update(tree: Tree, path: str, repo: str, ref: str) -> Command:
    """Fetch, and check the wanted commit out, if the tree is still as it was seen."""
    return write_script(
        *(GIT + _FAIL + _UPDATE, path, ref, tree.ref_kind, tree.head, tree.wanted, repo),
        called=("git-update", path, repo, ref),
    )


_FAIL = r"""
fail() { die 12 "$@"; }
git_able
"""

_UPDATE = script(__package__, "git_update")


def clone(tree: Tree, path: str, repo: str, ref: str) -> Command:
    """Clone beside *path*, then put the clone there, in the place of what was seen."""
    return write_script(
        *(GIT + _FAIL + _CLONE, path, repo, ref, tree.ref_kind, tree.wanted, tree.kind, tree.inode),
        called=("git-clone", repo, path, ref),
    )


_CLONE = script(__package__, "git_clone")
