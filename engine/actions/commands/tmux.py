"""Start a command in a detached tmux session, unless there is a session of that name.

It goes on when the connection is gone. To look at it: `tmux attach -t NAME`; to end it: `tmux kill-session -t NAME`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from engine.errors import ProbeError
from engine.facts.files.path_safety import refusal
from engine.protocols import Fails, Holds, Probe
from engine.shell import OUTLIVE, SAFE
from engine.values.command import Completed, read_script, write_script
from engine.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from engine.values.types import Duration

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Which session, and what runs in it."""

    session: str = field(metadata={"about": "Its name: letters, digits, - and _."})
    argv: tuple[str, ...] = field(default=(), metadata={"about": "The program and its arguments; no shell reads them."})
    script: str = field(default="", metadata={"about": "POSIX sh text, instead of `argv`."})
    folder: str = field(default="", metadata={"about": "The absolute path of the directory that it starts in."})
    steady: Duration = field(
        default=Duration(1.0),
        metadata={"about": "How long it must last before it is probed again.", "minimum": 0, "maximum": 300},
    )

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.session):
            raise ValueError(f"`session`: {self.session!r} is no name: letters, digits, - and _ only")
        if bool(self.argv) == bool(self.script) or (self.argv and not self.argv[0]):
            raise ValueError("give exactly one of `argv` and `script`")
        if self.folder and not self.folder.startswith("/"):
            raise ValueError(f"`folder` must be absolute: {self.folder}")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Whether there is such a session."""

    installed: bool = field(metadata={"about": "Whether there is a tmux on this host."})
    exists: bool = field(default=False, metadata={"about": "Whether there is a session of that name."})
    pids: tuple[int, ...] = field(default=(), metadata={"about": "The processes that run in it."})
    tree: tuple[int, ...] = field(
        default=(), metadata={"about": "Those, and all that they have started, as far as it has not left them."}
    )
    created: int = field(default=0, metadata={"about": "When it was started: seconds since 1970."})
    refused: str = field(
        default="", metadata={"about": "Why root starts nothing in `folder`; empty: nothing forbids it."}
    )


def probe(args: Args) -> Probe[State]:
    """One look, as the user whose sessions these are."""
    done: Completed = yield read_script(_IS_THERE + SAFE + _FOLDER + _LOOK, args.session, args.folder)
    if done.timed_out or done.exit_code != 0:
        raise ProbeError(" ".join(done.stderr.split()) or "tmux does not say which sessions there are")
    lines = done.stdout.split("\n")
    if lines[0] == "absent":
        return State(installed=False)
    panes = [it.split() for it in lines if it.startswith("pane ")]
    pids = tuple(int(it[1]) for it in panes if it[3] == "0")
    below = (int(it.removeprefix("below ")) for it in lines if it.startswith("below "))
    why = [it.removeprefix("refused ") for it in lines if it.startswith(("refused ", "become "))]
    return State(
        installed=True,
        exists=bool(panes),
        pids=pids,
        tree=tuple(sorted({*pids, *below})),
        created=min((int(it[2]) for it in panes), default=0),
        refused=refusal(why[0], why[1].removeprefix("become ")) if why else "",
    )


_IS_THERE = """
LC_ALL=C; export LC_ALL
command -v tmux >/dev/null || { echo absent; exit 0; }
"""

_FOLDER = r"""
folder_fits() {  # directory: whether root may start programs there; goes there, or sets why and owner
    if [ "$safe_me" != 0 ]; then cd -- "$1"; return; fi
    safe_enter "$1" || return 1
    [ "$shared" = no ] || { why="everybody can put files in $1"; return 1; }
}
"""

_LOOK = r"""
unset TMUX
started_by() {  # pid, and a dot for each level: by the kernel's own lists, into which no process can write words
    [ "${#2}" -le 50 ] || return 0
    for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do
        echo "below $child"
        started_by "$child" "$2."
    done
}
if [ -d "$2" ] && [ "$safe_me" = 0 ] && ! folder_fits "$2"; then
    printf 'refused %s\nbecome %s\n' "$(printf %s "$why" | tr '\n' '?')" "$owner"
fi
# tmux makes the directory of its sockets where there is none, whatever it is asked: then there is no session either.
place=${TMUX_TMPDIR:-/tmp}
[ -d "$place" ] || place=/tmp
place=$place/tmux-$safe_me
if ! safe_resolve "$place" last || { [ "$kind" != absent ] && ! safe_step "$place"; }; then
    printf '%s\n' "$why" >&2
    exit 3
fi
[ "$kind" != absent ] || { echo none; exit 0; }
if said=$(tmux list-panes -s -t "=$1:" -F 'pane #{pane_pid} #{session_created} #{pane_dead}' 2>&1); then
    printf '%s\n' "$said"
    for pid in $(printf '%s\n' "$said" | sed -n 's/^pane \([0-9]*\) [0-9]* 0$/\1/p'); do started_by "$pid" .; done
    exit 0
fi
case $said in
    *"can't find"*|*'no server running'*|*'(No such file or directory)'*|*'(Connection refused)'*) echo none; exit 0 ;;
esac
printf '%s\n' "$said" >&2
exit 3
"""

_START = r"""
unset TMUX
session=$1 folder=$2 wait=$3; shift 3
if [ -n "$folder" ] && ! folder_fits "$folder"; then
    [ -z "$why" ] || printf '%s\n' "$why" >&2
    exit 3
fi
( outlive; exec tmux new-session -d -s "$session" -- "$@" ) || exit
exec sleep "$wait"
"""
"""``$1`` session, ``$2`` folder, ``$3`` seconds, then the program: with several words tmux starts no shell for it."""


def _line(args: Args, words: tuple[str, ...]) -> tuple[str, ...]:
    """What a person would type to do the same."""
    return ("tmux", "new-session", "-d", "-s", args.session, "-c", args.folder, "--", *words)


def decide(args: Args, state: State) -> Decision:
    """Start it, if it is not there."""
    if not state.installed:
        return Blocked(why="there is no tmux on this host: the action `package` installs it")
    if state.exists:
        return NoChange(why=f"there is a session {args.session} ({_processes(state)})")
    if state.refused:
        return Blocked(why=state.refused)
    words = ("sh", "-c", args.script) if args.script else ("env", "--", *args.argv)
    words = tuple(f"{it[:-1]}\\;" if it.endswith(";") else it for it in words)  # tmux takes a ; at the end for its own
    argv = (args.session, args.folder, f"{args.steady:g}", *words)
    return Change(
        summary=f"start {_short(args)} in the tmux session {args.session}",
        commands=(replace(write_script(SAFE + OUTLIVE + _FOLDER + _START, *argv), stands_for=_line(args, words)),),
        targets=(Target(kind="service", key=f"tmux:{args.session}", say=f"the tmux session {args.session}"),),
        risk=Risk.EDITS_FILES,
    )


def _processes(state: State) -> str:
    return f"pid {', '.join(map(str, state.pids))}" if state.pids else "its command has ended"


def _short(args: Args, most: int = 80) -> str:
    line = " ".join((args.script or " ".join(args.argv)).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def explain(args: Args, before: State, after: State) -> str:
    """Why there is no session."""
    return f"started, but the session {args.session} is gone: its command has ended already"


def holds(args: Args, state: State) -> Holds | Fails:
    """The session is there, and something runs in it."""
    if state.pids:
        return Holds(why=f"there is a session {args.session} ({_processes(state)})")
    return Fails(why=f"nothing runs in a session {args.session}")


def by_hand(args: Args) -> tuple[str, ...]:
    """The lines that a person would paste."""
    return (f"tmux new-session -d -s {args.session} {_short(args)!r}", f"tmux attach -t {args.session}")
