"""The sh programs of lanes and watchdogs, and the frames that are sent to them."""

from __future__ import annotations

import shlex

from engine.sessions.hidden_children import CAGE, HIDDEN, cgroup_name
from engine.shell import SAFE, script
from engine.values.command import Command, Effect

BOOT = """sh -c 'IFS= read -r l;eval "$l"'"""
"""A shell that evaluates the first line of its stdin."""

EXEC = f"exec {BOOT}"
"""What is handed to the login shell, whichever that is: no newline, no ``!``, one pair of single quotes."""

LEADER = (
    "IFS= read -r s </proc/$$/stat;s=${s##*) };set -- $s;"
    f'if [ "$3" != $$ ]&&command -v setsid >/dev/null;then exec setsid {BOOT};fi;'
    'set --;IFS= read -r l;eval "$l"'
)
"""The line that makes the shell the leader of a process group of its own, where the login shell did not.

All that runs on a lane is ended by a signal to its group, so that nobody else may be in that, and nothing outside it.
"""

READER = (
    'runbook_end=:;N=$(printf "\\nx");N=${N%x};'
    'while IFS= read -r n;do c=;while [ "$n" -gt 0 ];do IFS= read -r l||break 2;c=$c$l$N;n=$((n-1));done;'
    'eval "$c";done;'
    '"$runbook_end"'
)
"""The line that makes a lane of the shell: read a count, that many lines, evaluate them, and again.

A frame that was cut off in the middle is never run. ``runbook_end`` names what is done at the end of the input.
"""

GUARD = script(__package__, "guard")
"""What a shell takes from whoever logged in, made fit for the user that it runs as.

Programs are not sought in the current directory (an empty or relative entry of PATH), and by root not in directories
of other users or which everybody may write to, nor below such a directory (unless it has the sticky bit), by which name
or link ever: its owner could put another one in their place.  In a user namespace the machine's root may have another
number than 0 (``overflowuid``): it is that of the owner of /proc, which is the kernel's own and which no user can make.
HOME, where programs have their configuration, is the user's own: some hosts' sudo leaves that of whoever logged in.
"""

WATCHDOG = GUARD + HIDDEN + script(__package__, "watchdog")
"""Ends process groups by ``kill -TERM -GROUP``: busybox's kill knows no ``--``.

Orders, one a line: ``VERB GROUP LANE SECONDS KILL|NEVER TENTHS CGROUP``.  At end of file every probe is ended.
What a process is called may hold lines, so that each is read whole.  ``escaped`` ends who left the group with the
lane's mark, if that is a process of the user who runs this: anybody may write a mark that he has seen into his own
environment.  The environments of others are not even read: they may lie on a file system of theirs that never answers,
and no signal ends who waits for that.

``hidden`` ends who cleared that, too (``engine.sessions.hidden_children``); a probe that ended by itself (0 tenths) is
not searched for those, which costs as much as a probe."""

GREETING = (
    GUARD.replace("%", "%%")
    + r"""
RUNBOOK_LANE=%(lane)s; export RUNBOOK_LANE
runbook_cage=-
%(cage)s
IFS= read -r s </proc/$$/stat; s=${s##*) }; s=${s#* }; s=${s#* }; s=${s%%%% *}
g=shared; case $s in "") g=hidden;; $$|"${1:-}") g=own;; esac
printf '\nlane %(lane)s %%s %%s %%s %%s\n' "$g" "$s" "$runbook_cage" "$(id -un 2>/dev/null || id -u)"
printf '\nlane %(lane)s\n' >&2
"""
)
"""The first frame of a lane: names itself in the environment, says its process group, whether that is its own, its
control group, its user.

It says so behind whatever the login shell, or sudo, has printed on either stream.
Behind sudo the leader is sudo itself, which the shell before it became: ``$1`` is the process id of that.
"""


LEFTOVERS = script(__package__, "leftovers")
"""The frame before the first command of an author on a lane: ``runbook_sweep`` ends what such a command leaves behind.

A process is known by its session, or by the lane's mark in its environment where it has left that (``setsid``); one
that did both, and cleared its environment, is not (``engine.sessions.hidden_children``: nor was it before)."""

HARMED = "harmed"
"""Stands in the mark on stderr where a command's leftovers could not be ended, so that its lane is given up."""


def frame(text: str) -> bytes:
    """*text* as a lane reads it: the number of its lines, and the lines."""
    body = text if text.endswith("\n") else text + "\n"
    return f"{body.count(chr(10))}\n{body}".encode()


def greeting(lane: str, *, cage: bool = False) -> str:
    """The first frame of the lane named *lane*; *cage*: in a control group of its own, where that can be had."""
    enter = f"runbook_name={cgroup_name(lane)}\n{CAGE}" if cage else ""
    return GREETING % {"lane": lane, "cage": enter}


def enter(become: str) -> str:
    """The lines before the first frame for a shell of the user *become* (empty: who logged in)."""
    return f"{LEADER}\n" + (f"exec sudo -n -u {shlex.quote(become)} -- {BOOT} sh $$\n" if become else "")


def enter_with_password(become: str, prompt: str) -> str:
    """As ``enter``, where sudo asks for a password, with *prompt* on stderr, and reads one line.

    It asks whatever it may remember, so that the line which answers it is never left for the shell behind it.
    """
    return f"{LEADER}\nexec sudo -k -S -p {shlex.quote(prompt)} -u {shlex.quote(become)} -- {BOOT} sh $$\n"


_KEEP_LOCK = """\
if (cd -- %s && [ -d held ] && IFS= read -r s </proc/$$/stat && set -- ${s##*) } && echo "$$:${20}" >>also \\
  && [ ! -d gone ]) 2>/dev/null; then
%s
else echo "the host's lock could not be kept, and nothing was started" >&2; (exit 75); fi"""
"""Adds the shell of a write to the lock, and runs it only then: the lock may have ended with our connection."""


def command_text(command: Command, token: str) -> str:
    """The frame that runs *command* and then marks both streams with *token*.

    What a write prints goes through relays, which outlive our connection.  Where a relay was killed, and the mark with
    it, the last marks say that the command is over and its exit code is lost: when nobody reads them any more, the
    shell goes on all the same, to its end.
    """
    body, code, harm = _body(command), "r=$?", ""
    if fit := _fit(command):
        code = f'r=$?; [ -n "$f" ] || r={REFUSED}'
        body = f'{fit} || f=; [ -z "$f" ] || {body}'
    if command.foreign and command.effect is not Effect.WRITE:
        code, harm = f"{code}; runbook_sweep", '"$runbook_harm"'
    marks = f"""{code}; printf '\\n{token} %s\\n' "$r"; printf '\\n{token}%s\\n' {harm} >&2"""
    if command.effect is not Effect.WRITE:
        return f"f=1\n{body}\n{marks}\n{_UNTIL_ENDED if harm else ''}"
    if command.lock:
        body = _KEEP_LOCK % (shlex.quote(command.lock), body)
    relay = "{ trap '' PIPE; cat 2>/dev/null || cat >/dev/null; }"
    lost = f"trap '' PIPE; printf '\\n{token} -\\n'; printf '\\n{token} -\\n' >&2"
    return (
        f"exec 4>&2\nf=1\n{{ {{ {{ {body}\n{marks}; }} 2>&1 1>&6 4>&- 6>&- | {relay} 1>&4 4>&- 6>&-; }} 6>&1 4>&4"
        f" | {relay} 4>&-; }}\n{lost}\n"
    )


_UNTIL_ENDED = '[ -z "$runbook_harm" ] || while IFS= read -r l; do :; done\n'
"""What a harmed lane does with the frames that were sent ahead: nothing, until it is ended."""

REFUSED = "!"
"""Stands in a mark for the exit code of a command that was not started; stderr says why."""

_FIT = SAFE + script(__package__, "fit_limits")
"""``$1``: the directory to run in, or empty, ``$2``: directories in which programs and libraries are sought, ``$3``
...: the program and its arguments: fails, with the reason on stderr, where root would run in a directory that another
user can change, or a program that he can exchange, or a script that is named to one that runs scripts.  What is in the
text of a script is its author's matter."""

_SOUGHT = frozenset({"PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "PERL5LIB", "RUBYLIB", "NODE_PATH"})


def _fit(command: Command) -> str:
    """A subshell that fails where root must not run *command* (law 9); empty: nothing stands in its way."""
    argv = () if command.script else command.argv
    paths = ":".join(value for name, value in command.env if name in _SOUGHT)
    if not command.foreign or not (command.cwd or paths or any("/" in word for word in argv)):
        return ""
    words = " ".join(map(shlex.quote, (command.cwd, paths, *argv)))
    return f"( unset n c l N r s g f\nset -- {words}\neval {shlex.quote(_FIT)}\n) </dev/null"


def _body(command: Command) -> str:
    """A subshell that runs *command* with its own stdin, and nothing of ours open."""
    parts = ["unset n c l N r s g f"]  # one of them holds this frame, and with it the token of its marks
    parts += [f"cd -- {shlex.quote(command.cwd)} || exit 126"] if command.cwd else []
    parts += [f"export {name}={shlex.quote(value)}" for name, value in command.env]
    if command.script:
        parts.append("set -- " + " ".join(map(shlex.quote, command.argv)))
        parts.append(f"eval {shlex.quote(command.script)}")
    else:
        parts.append("exec " + " ".join(map(shlex.quote, command.argv)))
    closed = " 4>&- 6>&-" if command.effect is Effect.WRITE else ""
    inside = "( " + "\n".join(parts) + "\n)"
    if command.stdin:
        return f"printf %s {shlex.quote(command.stdin)} | {inside}{closed}"
    return f"{inside} </dev/null{closed}"
