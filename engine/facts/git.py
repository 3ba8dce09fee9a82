"""A git work tree on the host and the repository that it comes from: how they stand, and what brings them together."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import ProbeError
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
    return read_script(_QUIET + _LOOK, path, repo, ref)


_QUIET = r"""
LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0; export LC_ALL GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS
[ -n "$GIT_SSH_COMMAND" ] || { GIT_SSH_COMMAND='ssh -o BatchMode=yes -o ConnectTimeout=10'; export GIT_SSH_COMMAND; }
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
g() { git -c safe.directory="$path" -C "$path" "$@"; }
"""

_LOOK = r"""
path=$1 repo=$2 ref=$3 kind= found= wanted=
fail() { printf '%s\n' "$*" >&2; exit 3; }
command -v git >/dev/null || { echo 'kind no git'; exit 0; }
if [ -L "$path" ]; then kind=other
elif [ ! -e "$path" ]; then kind=absent
elif [ ! -d "$path" ]; then kind=other
elif [ ! -r "$path" ] || [ ! -x "$path" ]; then fail "$(id -un) may not look into $path"
elif [ -z "$(ls -A "$path")" ]; then kind=empty
elif [ ! -e "$path/.git" ]; then kind=foreign
else
    if said=$(g rev-parse --git-dir 2>&1); then
        if head=$(g rev-parse -q --verify 'HEAD^{commit}' 2>/dev/null) && g cat-file -e 'HEAD^{tree}' 2>/dev/null &&
            changes=$(g status --porcelain --untracked-files=no 2>/dev/null); then kind=tree
        else kind=broken
        fi
    else case $said in *'not a git repository'*|*'invalid gitfile'*) kind=broken ;; *) fail "$path: $said" ;; esac
    fi
fi
echo "kind $kind"
[ $kind = absent ] || echo "inode $(stat -c '%d:%i' "$path")"
if [ $kind = tree ]; then
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
    said=$(git ls-remote -q -- "$repo" "refs/heads/$ref" "refs/tags/$ref" "refs/tags/$ref^{}" 2>&1) ||
        fail "not known what $ref is in $repo: $said"
    wanted=
    while read -r commit name; do
        case $name in
            "refs/heads/$ref") wanted=$commit found=branch; break ;;
            "refs/tags/$ref"|"refs/tags/$ref^{}") wanted=$commit found=tag ;;
        esac
    done <<END
$said
END
fi
echo "wanted $wanted $found"
if [ $kind = tree ] && [ -n "$wanted" ] && [ "$wanted" != "$head" ]; then
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
    told = dict(lines)
    if "kind" not in told or ("wanted" not in told and told["kind"] != "no git"):
        raise ProbeError("git gave no whole answer")
    wanted, _, ref_kind = told.get("wanted", "").partition(" ")
    return Tree(
        kind=told["kind"],
        inode=told.get("inode", ""),
        head=told.get("head", ""),
        branch=told.get("branch", ""),
        origin=told.get("origin", ""),
        changes=tuple(rest for word, rest in lines if word == "change"),
        wanted=wanted,
        ref_kind=ref_kind,
        ahead=told.get("ahead") == "yes",
    )


def update(tree: Tree, path: str, ref: str) -> Command:
    """Fetch, and check the wanted commit out, if the tree is still as it was seen."""
    return write_script(_QUIET + _UPDATE, path, ref, tree.ref_kind, tree.head, tree.wanted)


_UPDATE = r"""
path=$1 ref=$2 kind=$3 seen=$4 wanted=$5
fail() { code=$1; shift; printf '%s\n' "$*" >&2; exit "$code"; }
now=$(g rev-parse -q --verify 'HEAD^{commit}')
[ "$now" = "$seen" ] || fail 10 "$path is at another commit than when it was looked at"
[ -z "$(g status --porcelain --untracked-files=no)" ] || fail 10 "$path has been changed since it was looked at"
case $kind in
    branch) g fetch -q origin "+refs/heads/$ref:refs/remotes/origin/$ref" || exit ;;
    tag) g fetch -q origin "refs/tags/$ref:refs/tags/$ref" || exit ;;
    *) g cat-file -e "$wanted^{commit}" 2>/dev/null || g fetch -q origin || exit
       g cat-file -e "$wanted^{commit}" 2>/dev/null || g fetch -q origin "$wanted" || exit ;;
esac
g cat-file -e "$wanted^{commit}" 2>/dev/null || fail 12 "the repository does not give $wanted any more"
if ! g merge-base --is-ancestor HEAD "$wanted" && [ -z "$(g for-each-ref --count=1 --contains HEAD)" ]; then
    fail 12 "the commit that is checked out in $path is on no branch, and would be lost: nothing was checked out"
fi
if [ "$kind" = branch ]; then
    if g rev-parse -q --verify "refs/heads/$ref" >/dev/null; then
        g merge-base --is-ancestor "refs/heads/$ref" "$wanted" ||
            fail 12 "the branch $ref has commits of its own in $path: nothing was checked out"
    fi
    g checkout -q --no-overwrite-ignore -B "$ref" "$wanted" || exit
    g branch -q --set-upstream-to="origin/$ref" "$ref" 2>/dev/null
else g checkout -q --no-overwrite-ignore --detach "$wanted" || exit
fi
exit 0
"""


def clone(tree: Tree, path: str, repo: str, ref: str) -> Command:
    """Clone beside *path*, then put the clone there, in the place of what was seen."""
    return write_script(_QUIET + _CLONE, path, repo, ref, tree.ref_kind, tree.wanted, tree.kind, tree.inode)


_CLONE = r"""
path=$1 repo=$2 ref=$3 kind=$4 wanted=$5 was=$6 seen=$7 tmp= aside=
fail() { code=$1; shift; printf '%s\n' "$*" >&2; exit "$code"; }
trap '[ -z "$tmp" ] || rm -rf -- "$tmp"' EXIT
trap 'exit 12' HUP INT TERM
dir=${path%/*}; [ -n "$dir" ] || dir=/
tmp=$(mktemp -d "$dir/.runbook.XXXXXX") || { tmp=; exit 12; }
git clone -q --no-checkout -- "$repo" "$tmp/it" || exit 12
path=$tmp/it
if ! g cat-file -e "$wanted^{commit}" 2>/dev/null; then g fetch -q origin "$wanted" || exit 12; fi
if [ "$kind" = branch ]; then
    g checkout -q -B "$ref" "$wanted" || exit 12
    g branch -q --set-upstream-to="origin/$ref" "$ref" 2>/dev/null
else g checkout -q --detach "$wanted" || exit 12
fi
path=$1
gone() { fail 10 "$path has changed since it was looked at: nothing was put there"; }
case $was in
    absent) [ ! -e "$path" ] && [ ! -L "$path" ] || gone ;;
    *)
        [ ! -L "$path" ] && [ -d "$path" ] && [ "$(stat -c '%d:%i' "$path")" = "$seen" ] || gone
        if [ "$was" = empty ]; then rmdir -- "$path" 2>/dev/null || gone
        else  # what is not in git is nowhere else: it stays, under another name
            aside=$path.replaced-$(date +%Y%m%d-%H%M%S)
            [ ! -e "$aside" ] && [ ! -L "$aside" ] || fail 12 "$aside is in the way"
            mv -- "$path" "$aside" || exit 12
        fi ;;
esac
if [ ! -e "$path" ] && [ ! -L "$path" ] && mv -- "$tmp/it" "$path"; then
    [ -z "$aside" ] || printf 'what was there is %s\n' "$aside"
    exit 0
fi
[ -z "$aside" ] || [ -e "$path" ] || mv -- "$aside" "$path"
exit 12
"""
