"""A git work tree on the host and the repository that it comes from: how they stand, and what brings them together."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import ProbeError
from engine.shell import GIT
from engine.values.command import Command, Completed, read_script, write_script

GONE_ON = 10
"""Exit code of a write that found another state than the look: nothing was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """What is at a path, and which commit is wanted there."""

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
    """How *path* stands, and what *ref* means in *repo*."""
    return read_script(_IS_THERE + GIT + _LOOK, path, repo, ref)


_IS_THERE = """
command -v git >/dev/null || { echo 'kind no git'; exit 0; }
"""


_LOOK = r"""
path=$1 repo=$2 ref=$3 found= wanted= head= changes= inode=
fail() { printf '%s\n' "$*" >&2; exit 3; }
git_able
if safe_resolve "$path"; then
    case $kind in
        absent) ;;
        directory)
            safe_enter "$path" || git_refuse
            inode=$(stat -c '%d:%i' .)
            entries=$(ls -A . 2>/dev/null) || fail "$(id -un) may not look into $path"
            if [ -z "$entries" ]; then kind=empty
            elif [ ! -e .git ] && [ ! -L .git ]; then kind=foreign
            else git_enter
            fi ;;
        *) kind=other inode=$(stat -c '%d:%i' "$real") ;;
    esac
else case $why in 'there is no directory '*) kind=absent ;; *) git_refuse ;; esac
fi
if [ "$kind" = tree ]; then
    git_tracked
    if head=$(g rev-parse -q --verify 'HEAD^{commit}' 2>/dev/null) && g cat-file -e 'HEAD^{tree}' 2>/dev/null; then
        changes=$(g status --porcelain --untracked-files=no --ignore-submodules=dirty 2>&1) ||
            case $changes in *" filter '"*) fail "$path: $changes (git's filters are not run)" ;; *) kind=broken ;; esac
    else kind=broken
    fi
fi
stands=$kind
echo "kind $stands"
[ -z "$inode" ] || echo "inode $inode"
if [ "$stands" = tree ]; then
    echo "head $head"
    echo "branch $(g symbolic-ref -q --short HEAD)"
    echo "origin $(g config --get remote.origin.url)"
    [ -z "$changes" ] || printf '%s\n' "$changes" | head -n 100 | sed 's/^/change /'
fi
case $ref in
    *[!0-9a-f]*) ;;
    *) [ ${#ref} -ne 40 ] || found=commit wanted=$ref ;;
esac
if [ -z "$found" ]; then
    said=$(git_source "$repo" && git_refs "$repo" "$ref" 2>&1) || fail "not known what $ref is in $repo: $said"
    for kind in "branch refs/heads/$ref" "tag refs/tags/$ref^{}" "tag refs/tags/$ref"; do
        wanted=$(printf '%s\n' "$said" | awk -F '\t' -v name="${kind#* }" '$2 == name { print $1; exit }')
        [ -z "$wanted" ] || { found=${kind%% *}; break; }
    done
fi
echo "wanted $wanted $found"
if [ "$stands" = tree ] && [ -n "$wanted" ] && [ "$wanted" != "$head" ]; then
    if g merge-base --is-ancestor "$wanted" "$head" 2>/dev/null && [ "$found" = branch ]; then echo 'ahead yes'; fi
fi
exit 0
"""
"""A branch comes before a tag of the same name; of a tag with a message it is the commit that counts (``^{}``)."""


def read_tree(done: Completed) -> Tree:
    """The answer to ``ask_tree``.  Raises ProbeError."""
    if done.timed_out:
        raise ProbeError("git did not answer in time: is the repository within reach?")
    if done.exit_code != 0:
        raise ProbeError(" ".join(done.stderr.split()) or f"git gave no answer (exit code {done.exit_code})")
    lines = [it.partition(" ")[::2] for it in done.stdout.split("\n") if it]
    reported = dict(lines)
    if "kind" not in reported or ("wanted" not in reported and reported["kind"] != "no git"):
        raise ProbeError("git gave no whole answer")
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
stop() { code=$1; shift; printf '%s\n' "$*" >&2; exit "$code"; }
fail() { stop 12 "$@"; }
git_able
"""

_UPDATE = r"""
path=$1 ref=$2 ref_kind=$3 seen=$4 wanted=$5 repo=$6
( git_source "$repo" ) || exit
git_enter
[ "$kind" = tree ] || stop 10 "$path is no whole work tree any more"
git_tracked
now=$(g rev-parse -q --verify 'HEAD^{commit}')
[ "$now" = "$seen" ] || stop 10 "$path is at another commit than when it was inspected"
changes=$(g status --porcelain --untracked-files=no --ignore-submodules=dirty) ||
    fail "git cannot tell what is changed in $path"
[ -z "$changes" ] || stop 10 "$path has been changed since it was inspected"
fetch() { GIT_ALLOW_PROTOCOL=$git_protocols g fetch -q --no-recurse-submodules --no-auto-gc -- "$repo" "$@"; }
case $ref_kind in
    branch) fetch "+refs/heads/$ref:refs/remotes/origin/$ref" || exit ;;
    tag) fetch "refs/tags/$ref:refs/tags/$ref" || exit ;;
    *) g cat-file -e "$wanted^{commit}" 2>/dev/null || fetch '+refs/heads/*:refs/remotes/origin/*' || exit
       g cat-file -e "$wanted^{commit}" 2>/dev/null || fetch "$wanted" || exit ;;
esac
g cat-file -e "$wanted^{commit}" 2>/dev/null || fail "the repository does not give $wanted any more"
git_tracked "$wanted"
if ! g merge-base --is-ancestor HEAD "$wanted" && [ -z "$(g for-each-ref --count=1 --contains HEAD)" ]; then
    fail "the commit that is checked out in $path is on no branch, and would be lost: nothing was checked out"
fi
if [ "$ref_kind" = branch ]; then
    if g rev-parse -q --verify "refs/heads/$ref" >/dev/null; then
        g merge-base --is-ancestor "refs/heads/$ref" "$wanted" ||
            fail "the branch $ref has commits of its own in $path: nothing was checked out"
    fi
    g checkout -q --no-overwrite-ignore -B "$ref" "$wanted" || exit
    g branch -q --set-upstream-to="origin/$ref" "$ref" 2>/dev/null
else g checkout -q --no-overwrite-ignore --detach "$wanted" || exit
fi
exit 0
"""


def clone(tree: Tree, path: str, repo: str, ref: str) -> Command:
    """Clone beside *path*, then put the clone there, in the place of what was seen."""
    return write_script(
        *(GIT + _FAIL + _CLONE, path, repo, ref, tree.ref_kind, tree.wanted, tree.kind, tree.inode),
        called=("git-clone", repo, path, ref),
    )


_CLONE = r"""
path=$1 repo=$2 ref=$3 ref_kind=$4 wanted=$5 was=$6 seen=$7 work=
git_source "$repo"
safe_beside "$path" || git_refuse
ground=$shared
remove() { [ -z "$work" ] || rm -rf -- "./$work"; }
trap remove EXIT
trap 'exit 12' HUP INT TERM
safe_workshop || fail "$why"
GIT_ALLOW_PROTOCOL=$git_protocols
# shellcheck disable=SC2086 # these are many words
git $git_steady clone -q --no-checkout -o origin -- "$repo" "$work/tree" || exit 12
(
    path=$PWD/$work/tree
    git_enter
    [ "$kind" = tree ] || fail 'the clone is broken'
    if ! g cat-file -e "$wanted^{commit}" 2>/dev/null; then g fetch -q -- "$repo" "$wanted" || exit 12; fi
    if [ "$ref_kind" = branch ]; then
        g checkout -q -B "$ref" "$wanted" || exit 12
        g branch -q --set-upstream-to="origin/$ref" "$ref" 2>/dev/null
    else g checkout -q --detach "$wanted" || exit 12
    fi
) || exit 12
gone() { stop 10 "$path has changed since it was inspected: nothing was put there"; }
aside=
case $was in
    absent) [ ! -e "./$name" ] && [ ! -L "./$name" ] || gone ;;
    *)
        safe_stat "./$name" && safe_ours "$uid" && [ ! -L "./$name" ] && [ -d "./$name" ] &&
            [ "$(stat -c '%d:%i' "./$name")" = "$seen" ] || gone
        if [ "$was" = empty ]; then rmdir -- "./$name" 2>/dev/null || gone
        else # what is not in git is nowhere else: it stays, under another name
            aside=$name.replaced-$(date +%Y%m%d-%H%M%S)
            [ ! -e "./$aside" ] && [ ! -L "./$aside" ] || fail "$aside is in the way"
            shared=$ground
            safe_put "./$name" "$aside" || fail "$why"
        fi ;;
esac
shared=$ground
if [ ! -e "./$name" ] && [ ! -L "./$name" ] && safe_put "./$work/tree" "$name"; then
    [ -z "$aside" ] || printf 'what was there is %s\n' "${path%/*}/$aside"
    exit 0
fi
printf '%s\n' "$why" >&2
[ -z "$aside" ] || [ -e "./$name" ] || mv -- "./$aside" "./$name"
exit 12
"""
