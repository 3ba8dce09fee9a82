"""The shell programs of sessions, and the text that is sent to the sessions."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from runbook.shell import SAFE, script
from runbook.values.command import Command, Effect

EXEC = "exec sh"
"""The command for the login shell, of any kind; it becomes a shell that runs the text on its input."""

LINE_BY_LINE = """exec sh -c 'IFS= read -r l;eval "$l"'"""
"""The same as EXEC, for a shell that first reads one line: it has no newline, no ``!``, and one pair of quotes."""

_OWN_GROUP = (
    "IFS= read -r s </proc/$$/stat;s=${s##*) };set -- $s;"
    """b='IFS= read -r l;eval "$l"';"""
    'if [ "$3" != $$ ]&&command -v setsid >/dev/null;then exec setsid sh -c "$b";fi;set --;eval "$b"'
)
"""The line that makes the shell the leader of a process group of its own, where the login shell did not.

All that runs in a session is ended by a signal to its group: nobody else may be in that, and nothing outside it.
"""

PATH_GUARD = script(__package__, "path_guard")
"""Makes the environment of a shell fit for its user.

Programs are not searched in the current directory (an empty or relative entry of PATH).  Root does not search in a
directory of another user, in one that everybody may write to, or below such a directory (unless it has the sticky
bit).  Links are followed for this check: the owner could replace a program there.  In a user namespace, the machine's
root may have another number than 0 (``overflowuid``).  It is the owner of /proc, which the kernel makes and no user.
HOME, where programs have their configuration, is set to the user's own, because some sudo keeps that of the login user.
"""

KILL_GROUP = script(__package__, "kill_group")
"""Functions that end a process group and processes that have left it; ``end_group`` reports the survivors.

For a change with its own control group, everything in that group is ended.  Without one, the descendants of the
process group are ended, found before the first is ended, and processes with the session's mark in their environment.
"""

_CONTROL_GROUP = script(__package__, "control_group")
"""Makes a control group for a change, and only for a change, because it makes a directory.

It lies in the control group of the shell.  That must be the user's own and at the expected place, because a container
may see the tree of its host.  A descendant leaves the group only on purpose (``outlive`` in ``shell``).  After the
change, the remaining processes are moved up and the group is removed: by the shell at the end of its input, or by the
process that ends the shell.  If both were killed, the next change does it.  A pid 0 is a process in another pid
namespace.
"""

AGENT = script(__package__, "agent")

LEFTOVERS = script(__package__, "leftovers")
"""Comes before the first command of an author in a session: ``runbook_sweep`` ends processes that it leaves behind.

A process is recognised by its session; after ``setsid``, by the session's mark in its environment.  A process that has
left the session and cleared its environment is not found.
"""

_CONFINE, _CONFINEMENT = script(__package__, "confine"), script(__package__, "confinement")
"""Make all file systems read-only for a command; this protects against mistakes, not against malice of an author."""

HARMED = "harmed"
"""The mark on stderr of a session that cannot be used any more, because a command's leftovers could not be ended."""

REFUSED = "!"
"""The value in a mark in place of the exit code if a command was not started; stderr has the reason."""


def control_group(session: str) -> str:
    """Return the name of the control group of *session*.

    A dash after every four digits keeps it from looking like the id of a container.
    """
    return "runbook-command-" + "-".join(session[at : at + 4] for at in range(0, len(session), 4))


def greeting(session: str, *, alone: bool = False) -> str:
    """Return the first text that is sent to the session *session*; *alone*: in a control group of its own, if possible.

    The shell answers, after any output of the login shell or sudo, with its process group and control group.  The
    answer
    also says whether the process group is the shell's own, and whether the shell runs as root.  Behind sudo, sudo leads
    the group: ``$1``.
    """
    enter = f"runbook_name={control_group(session)}\n{_CONTROL_GROUP}" if alone else ""
    return (
        f"{PATH_GUARD}RUNBOOK_SESSION={session}\n{AGENT}runbook_kill_group={shlex.quote(KILL_GROUP)}\n{enter}"
        f"printf '\\nsession {session} %s %s:%s %s %s\\n'"
        ' "$runbook_line" "$runbook_group" "$runbook_started" "${runbook_root:-no}" "$runbook_cgroup"\n'
        f"printf '\\nsession {session}\\n' >&2\n"
    )


def confine(session: str) -> str:
    """Return the text that replaces the shell of *session* by a new shell that cannot write to any file system."""
    text = f"runbook_name={session} runbook_confinement={shlex.quote(_CONFINEMENT)}\n{_CONFINE}"
    return f"{{ {text}\n}}\n"  # as a whole: what is not read yet when a shell is replaced, the next one would take


def killer() -> str:
    """Return the first text for a shell that ends sessions."""
    return f"{PATH_GUARD}{KILL_GROUP}printf '\\nready\\n'\n"


def end_group(group: str, session: str, tenths: int, cgroup: str) -> str:
    """Return the line that tells a killer shell to end the process *group* and the control group of *session*.

    *tenths*: tenths of a second between TERM and KILL.
    """
    return f"end_group {group} {session} {tenths} {cgroup or '-'}\n"


TENTHS_TO_END = {Effect.READ: 3, Effect.SCRATCH: 20, Effect.WRITE: 50}
"""The tenths of a second between TERM and KILL: a probe that has made a file of its own can remove it."""


def tenths_to_end(commands: Iterable[Command]) -> int:
    """Return the time between TERM and KILL for *commands*, in tenths of a second: the longest of them."""
    return max(TENTHS_TO_END[command.effect] for command in commands)


def batch(commands: Sequence[tuple[Command, str]]) -> str:
    """Return the text that runs *commands*, each with its token; if the text arrives incomplete, it runs nothing.

    The commands are ended when their time is up, or when the connection is lost; a lost connection does not end a
    change.  A command that cannot be ended has no limit.
    """
    tenths = tenths_to_end(command for command, _ in commands)
    seconds = -int(-sum(command.timeout for command, _ in commands) // 1)
    last = len(commands) - 1
    texts = (command_text(command, token, last=number == last) for number, (command, token) in enumerate(commands))
    alone = commands[0][0].effect is Effect.WRITE
    limit = f"runbook_watch {max(1, seconds) + (0 if alone else GRACE)} {tenths}{' alone' if alone else ''}\n"
    return f"{{ {'' if commands[0][0].unkillable else limit}{''.join(texts)}}}\n"


GRACE = 10
"""The seconds after the timeouts of a batch's commands until the host itself ends the batch."""


def enter(become: str, *, own_group: bool = False) -> str:
    """Return the lines that start a shell of the user *become* (empty: the login user), for a shell behind
    LINE_BY_LINE.
    """
    if not become:
        return f"{_OWN_GROUP}\nexec sh -s $$\n" if own_group else ""
    return f"{_OWN_GROUP}\nexec sudo -n -u {shlex.quote(become)} -- sh -s $$\n"


def enter_with_password(become: str, prompt: str) -> str:
    """Return the lines of ``enter`` for a sudo that asks for a password, with *prompt* on stderr, and reads one line.

    sudo always asks, even if it remembers a password, so that the password line is never left for the shell behind it.
    """
    return f"{_OWN_GROUP}\nexec sudo -k -S -p {shlex.quote(prompt)} -u {shlex.quote(become)} -- sh -s $$\n"


_KEEP_LOCK = """\
if runbook_keep_lock %s 2>/dev/null; then
%s
else echo "the host's lock could not be kept, and nothing was started" >&2; (exit 75); fi"""
"""Adds the shell of a write to the lock, and runs it only then: the lock may have ended with our connection."""


def command_text(command: Command, token: str, *, last: bool = False) -> str:
    """Return the text that runs *command* and then prints the mark *token* on both streams.

    The output of a write passes through relays, which outlive our connection.  If a relay was killed together with its
    mark, the last marks report that the command is over and its exit code is lost.  When nobody reads the marks any
    more,
    the shell still runs to its end.
    """
    body, code, harm = _body(command), "runbook_code=$?", ""
    if trusted := _trusted(command):
        code = f'runbook_code=$?; [ -n "$runbook_runs" ] || runbook_code={REFUSED}'
        body = f'{trusted} || runbook_runs=; [ -z "$runbook_runs" ] || {body}'
    if command.foreign and command.effect is not Effect.WRITE:
        code, harm = f"{code}; runbook_sweep", '"$runbook_harm"'
    code += "; runbook_rest" if last else ""
    marks = f"""{code}; printf '\\n{token} %s\\n' "$runbook_code"; printf '\\n{token}%s\\n' {harm} >&2"""
    if command.effect is not Effect.WRITE:
        return f"runbook_runs=1\n{body}\n{marks}\n{_GIVEN_UP if harm else ''}"
    if command.lock:
        marks = f"{code}; runbook_let_lock {shlex.quote(command.lock)} 2>/dev/null{marks.removeprefix(code)}"
        body = _KEEP_LOCK % (shlex.quote(command.lock), body)
    relay = "{ trap '' PIPE; cat 2>/dev/null || cat >/dev/null; }"
    lost = f"trap '' PIPE; printf '\\n{token} -\\n'; printf '\\n{token} -\\n' >&2"
    return (
        f"exec 4>&2\nrunbook_runs=1\n{{ {{ {{ {body}\n{marks}; }} 2>&1 1>&6 4>&- 6>&- | {relay} 1>&4 4>&- 6>&-; }}"
        f" 6>&1 4>&4 | {relay} 4>&-; }}\n{lost}\n"
    )


_GIVEN_UP = '[ -z "$runbook_harm" ] || exit\n'
"""The answer of a harmed session to the commands that were sent ahead: it runs none."""

_TRUSTED = SAFE + script(__package__, "trusted_program")
TRUSTED_PROGRAM = f"runbook_trusted_program={shlex.quote(_TRUSTED)}\n"
"""Comes before the first command with words of an author: the check of ``runbook_trusts`` (law 9).

Root runs nothing in a directory that another user can change, and no program that another user can replace.  The text
of a script is its author's responsibility.
"""

_SOUGHT = frozenset({"PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "PERL5LIB", "RUBYLIB", "NODE_PATH"})


def needed(commands: Iterable[Command], *, root: bool) -> tuple[str, ...]:
    """Return the shell functions that a session must have before it runs *commands*; *root*: the session is root's."""
    several = tuple(commands)
    sweeps = any(command.foreign and command.effect is not Effect.WRITE for command in several)
    trusts = root and any(map(_trusted, several))
    return ((LEFTOVERS,) if sweeps else ()) + ((TRUSTED_PROGRAM,) if trusts else ())


def _trusted(command: Command) -> str:
    """Return the check that fails if root must not run *command* (law 9); empty: no check is needed."""
    if not command.foreign and not command.runs:
        return ""
    runs = command.runs or (("",) if command.script else ("", *command.argv),)
    paths = ":".join(value for name, value in command.env if name in _SOUGHT)
    path = dict(command.env).get("PATH", "")
    given = [(cwd or command.cwd, paths, path, *argv) for cwd, *argv in runs]
    return " && ".join(f"runbook_trusts {' '.join(map(shlex.quote, words))}" for words in given if any(words))


def _body(command: Command) -> str:
    """Return a subshell that runs *command* with its own stdin, and with none of the session's files open."""
    parts = [f"cd -- {shlex.quote(command.cwd)} || exit 126"] if command.cwd else []
    parts += [f"export {name}={shlex.quote(value)}" for name, value in command.env]
    if command.script:
        parts.append("set -- " + " ".join(map(shlex.quote, command.argv)))
        parts.append(f"eval {shlex.quote(command.script)}")
    else:
        parts.append("exec " + " ".join(map(shlex.quote, command.argv)))
    closed = " 3<&- 4>&- 6>&-" if command.effect is Effect.WRITE else " 3<&-"
    inside = "( " + "\n".join(parts) + "\n)"
    if command.stdin:
        return f"printf %s {shlex.quote(command.stdin)} | {inside}{closed}"
    return f"{inside} </dev/null{closed}"
