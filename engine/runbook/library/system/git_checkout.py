"""Ensure that a git repository is checked out at a path, at a branch, a tag or a commit.

A work tree with local changes is left alone. A broken work tree, or a directory that is no work tree, is replaced by a
fresh clone only below `allowed_roots`, and only after the clone is complete.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.library.files.facts.removal import TOO_WIDE, ask_entries, forbidden, read_entries
from runbook.library.system.facts.git import Tree, ask_tree, clone, read_tree, update
from runbook.protocols import Fails, Holds, Probe
from runbook.values.command import Command, Completed
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import plural

_REF = re.compile(r"(?!.*(?:\.\.|//|@\{|\.lock$|/$))[A-Za-z0-9][A-Za-z0-9._/@+-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    repo: str
    """The address of the repository, as for `git clone`; without a password."""
    path: str
    """The absolute path of the work tree."""
    ref: str
    """A branch, a tag, or a commit with all 40 digits."""
    allowed_roots: tuple[str, ...] = ()
    """Directories below which a broken or foreign directory may be replaced."""

    def __post_init__(self) -> None:
        if not self.repo or self.repo.startswith("-") or "::" in self.repo or re.search(r"[\s\0]", self.repo):
            raise ValueError(f"`repo`: {self.repo!r} is not the address of a repository")
        if not re.match(r"/|[^/:]+:", self.repo):
            raise ValueError(f"`repo`: {self.repo!r} is neither an address nor an absolute path")
        if re.match(r"[a-z+]+://[^/@]*:[^/@]*@", self.repo):
            raise ValueError(
                "`repo`: a password in the address would be visible to every user: use a key or a git credential helper"
            )
        if not self.path.startswith("/") or {"..", "."} & set(self.path.split("/")) or self.path.endswith("/"):
            raise ValueError(f"`path` must be absolute, without .. and without / at its end: {self.path!r}")
        if re.search(r"[*?\[\0\n]", self.path) or self.path.rstrip("/") in TOO_WIDE:
            raise ValueError(f"`path`: {self.path!r} is not allowed for a work tree")
        if not _REF.fullmatch(self.ref):
            raise ValueError(f"`ref`: {self.ref!r} is not a valid name of a branch, a tag or a commit")
        for allowed_root in self.allowed_roots:
            if (
                not allowed_root.startswith("/")
                or allowed_root.rstrip("/") in TOO_WIDE
                or not allowed_root.strip("/")
                or re.search(r"[*?\[]", allowed_root)
            ):
                raise ValueError(f"allowed_roots: {allowed_root!r} must be an absolute directory of your own")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of the work tree."""

    kind: str
    """absent, empty, tree, broken, foreign (no work tree), other, or no git."""
    head: str = ""
    """The commit that is checked out."""
    branch: str = ""
    """The branch that is checked out; empty: detached."""
    wanted: str = ""
    """The commit that `ref` resolves to in the repository now."""
    changes: tuple[str, ...] = ()
    """Changed files, as `git status` lists them."""
    kept: str = ""
    """The reason why the present directory must not be replaced."""
    tree: Tree = field(repr=False, metadata={"private": True})


def probe(args: Args) -> Probe[State]:
    """Read the tree and the repository; if the tree may be replaced, also check what would be removed."""
    tree = read_tree((yield ask_tree(args.path, args.repo, args.ref)))
    kept = ""
    if tree.kind in ("broken", "foreign"):
        kept = "it is only replaced below `allowed_roots`, and none is given"
        if args.allowed_roots:
            found = read_entries((yield ask_entries((args.path,), args.allowed_roots)))
            reasons = [forbidden(entry, found, directories=True) for entry in found.entries]
            kept = next((reason for reason in reasons if reason), "") if found.entries else "it was removed meanwhile"
    return State(
        kind=tree.kind,
        head=tree.head,
        branch=tree.branch,
        wanted=tree.wanted,
        changes=tree.changes,
        kept=kept,
        tree=tree,
    )


def decide(args: Args, state: State) -> Decision:
    """Clone, update or replace, if nothing of anybody's is lost by it."""
    if why := _obstacle(args, state):
        return Blocked(why=why)
    at = f"{args.ref} ({state.wanted[:12]})"
    if state.kind == "tree":
        if state.head == state.wanted:
            changed = f", with {plural(len(state.changes), 'file')} changed" if state.changes else ""
            return NoChange(why=f"{args.path} is at {at}{changed}")
        summary, command = (
            f"check out {at} in {args.path}, from {state.head[:12]}",
            update(state.tree, args.path, args.repo, args.ref),
        )
    else:
        command = clone(state.tree, args.path, args.repo, args.ref)
        summary = f"clone {args.repo} to {args.path}, at {at}"
        if state.kind in ("broken", "foreign"):
            summary = f"replace {args.path}, which is {_what(state)}, with a clone of {args.repo} at {at}"
    identity = state.head or state.tree.inode or state.kind
    return Change(
        summary=summary,
        commands=(command,),
        targets=(Target(kind="file", key=f"{args.path} {identity} -> {state.wanted}", say=args.path),),
        risk=Risk.DELETES_DATA if state.kind in ("broken", "foreign") else Risk.EDITS_FILES,
    )


def _what(state: State) -> str:
    return "a broken work tree" if state.kind == "broken" else "not a work tree"


def _obstacle(args: Args, state: State) -> str:
    tree = state.tree
    if state.kind == "no git":
        return "git is not installed on this host: the action `package` installs it"
    if not state.wanted:
        return f"{args.repo} has no branch or tag {args.ref}"
    if state.kind == "other":
        return f"{args.path} is a symbolic link or not a directory, and is not replaced"
    if state.kept:
        return f"{args.path} is {_what(state)}: {state.kept}"
    if state.kind != "tree" or state.head == state.wanted:
        return ""
    if _bare(tree.origin) != _bare(args.repo):
        return f"{args.path} has the origin {_no_password(tree.origin) or '(none)'}, not {args.repo}"
    if state.changes:
        names = ", ".join(change[3:] for change in state.changes[:5])
        return f"{args.path} has local changes, which are left alone: {names}"
    return f"{args.path} has local commits on top of {args.ref}, which are left alone" if tree.ahead else ""


def _bare(address: str) -> str:
    return address.rstrip("/").removesuffix(".git").rstrip("/")


def _no_password(address: str) -> str:
    return re.sub(r"://[^/@]*@", "://", address)


def settled(args: Args, before: State, after: State) -> bool:
    """The commit that was wanted is checked out, and nothing in it is changed."""
    return after.kind == "tree" and after.head == before.wanted and not after.changes


def explain(args: Args, before: State, after: State) -> str:
    """Say what a second probe finds instead."""
    return f"done, but {args.path} is at {after.head[:12] or after.kind}, not at {before.wanted[:12]}"


def refused(command: Command, completed: Completed) -> str:
    """git's own words."""
    lines = [" ".join(line.split()) for line in completed.stderr.split("\n") if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines[-2:]
    return f"exit code {completed.exit_code}: {'; '.join(telling[:3])}" if telling and not completed.timed_out else ""


def holds(args: Args, state: State) -> Holds | Fails:
    """It is checked out at what is wanted."""
    if state.kind == "tree" and state.wanted and state.head == state.wanted:
        return Holds(why=f"{args.path} is at {args.ref} ({state.wanted[:12]})")
    return Fails(why=f"{args.path} is {state.head[:12] or state.kind}, wanted {state.wanted[:12] or args.ref}")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    path = shlex.quote(args.path)
    return (
        f"git -C {path} fetch origin && git -C {path} checkout {args.ref}",
        f"git clone {shlex.quote(args.repo)} {path}",
    )
