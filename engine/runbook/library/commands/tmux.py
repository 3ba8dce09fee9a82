"""Start a command in a detached tmux session, unless a session of that name exists.

The command outlives the connection. To attach: `tmux attach -t NAME`; to end it: `tmux kill-session -t NAME`.
"""

from __future__ import annotations

import re
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.onhost.path_safety import refusal
from runbook.protocols import Fails, Holds, Probe
from runbook.shell import OUTLIVE, SAFE, script
from runbook.values.command import Completed, read_script, write_script
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import Duration

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    session: str
    """The session's name: letters, digits, - and _."""
    argv: tuple[str, ...] = ()
    """The program and its arguments; they are not passed through a shell."""
    script: str = ""
    """POSIX sh text, instead of `argv`."""
    folder: str = ""
    """The absolute path of the directory in which the command starts."""
    steady: Duration = field(default=Duration(1.0), metadata={"minimum": 0, "maximum": 300})
    """The time to wait after the start before the session is probed again."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.session):
            raise ValueError(f"`session`: {self.session!r} is not a valid name: use letters, digits, - and _ only")
        if bool(self.argv) == bool(self.script) or (self.argv and not self.argv[0]):
            raise ValueError("give exactly one of `argv` and `script`")
        if self.folder and not self.folder.startswith("/"):
            raise ValueError(f"`folder` must be absolute: {self.folder}")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Whether the session exists, and its processes."""

    installed: bool
    """Whether tmux is installed on this host."""
    exists: bool = False
    """Whether a session of that name exists."""
    pids: tuple[int, ...] = ()
    """The pids of the processes in the session's panes."""
    tree: tuple[int, ...] = ()
    """`pids` and all their descendants that have not been reparented."""
    created: int = 0
    """When the session was started, in seconds since 1970."""
    refused: str = ""
    """The reason why root refuses to start programs in `folder`; empty if root does not refuse."""


def probe(args: Args) -> Probe[State]:
    """List the session and its processes, as the user to whom the sessions belong."""
    done: Completed = yield read_script(_IS_THERE + SAFE + _FOLDER + _LOOK, args.session, args.folder)
    if done.timed_out or done.exit_code != 0:
        raise ProbeError(" ".join(done.stderr.split()) or "tmux did not list its sessions")
    lines = done.stdout.split("\n")
    if lines[0] == "absent":
        return State(installed=False)
    panes = [line.split() for line in lines if line.startswith("pane ")]
    pids = tuple(int(pane[1]) for pane in panes if pane[3] == "0")
    below = (int(line.removeprefix("below ")) for line in lines if line.startswith("below "))
    why = [line.removeprefix("refused ") for line in lines if line.startswith(("refused ", "become "))]
    return State(
        installed=True,
        exists=bool(panes),
        pids=pids,
        tree=tuple(sorted({*pids, *below})),
        created=min((int(pane[2]) for pane in panes), default=0),
        refused=refusal(why[0], why[1].removeprefix("become ")) if why else "",
    )


_IS_THERE = """
LC_ALL=C; export LC_ALL
command -v tmux >/dev/null || { echo absent; exit 0; }
"""

_FOLDER = script(__package__, "tmux_folder")

_LOOK = script(__package__, "tmux_probe")

_START = script(__package__, "tmux_start")
"""The script; ``$1`` session, ``$2`` folder, ``$3`` seconds, then the program (with several words tmux starts no
shell).
"""


def _line(args: Args, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the line that a person would type to do the same."""
    return ("tmux", "new-session", "-d", "-s", args.session, "-c", args.folder, "--", *words)


def decide(args: Args, state: State) -> Decision:
    """Start the session if it does not exist."""
    if not state.installed:
        return Blocked(why="tmux is not installed on this host: the action `package` installs it")
    if state.exists:
        return NoChange(why=f"the session {args.session} exists ({_processes(state)})")
    if state.refused:
        return Blocked(why=state.refused)
    words = ("sh", "-c", args.script) if args.script else ("env", "--", *args.argv)
    words = tuple(
        f"{word[:-1]}\\;" if word.endswith(";") else word for word in words
    )  # tmux takes a ; at the end for its own
    argv = (args.session, args.folder, f"{args.steady:g}", *words)
    return Change(
        summary=f"start {_short(args)} in the tmux session {args.session}",
        commands=(
            replace(
                write_script(SAFE + OUTLIVE + _FOLDER + _START, *argv),
                stands_for=_line(args, words),
                runs=((args.folder, *args.argv),),
            ),
        ),
        targets=(Target(kind="service", key=f"tmux:{args.session}", say=f"the tmux session {args.session}"),),
        risk=Risk.EDITS_FILES,
    )


def _processes(state: State) -> str:
    return f"pid {', '.join(map(str, state.pids))}" if state.pids else "its command has ended"


def _short(args: Args, most: int = 80) -> str:
    line = " ".join((args.script or " ".join(args.argv)).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def explain(args: Args, before: State, after: State) -> str:
    """Return the message for a session that ended again at once."""
    return f"started, but the session {args.session} is gone: its command has ended already"


def holds(args: Args, state: State) -> Holds | Fails:
    """Check that the session exists and that a process runs in it."""
    if state.pids:
        return Holds(why=f"the session {args.session} exists ({_processes(state)})")
    return Fails(why=f"no process runs in a session named {args.session}")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    return (f"tmux new-session -d -s {args.session} {_short(args)!r}", f"tmux attach -t {args.session}")
