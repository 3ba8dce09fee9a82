"""The sh programs that lanes and leashes run, and the frames that are sent to them."""

from __future__ import annotations

import shlex

from engine.sessions.hidden_children import CAGE, HIDDEN, cgroup_name
from engine.shell import SAFE
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
    'while IFS= read -r n;do c=;while [ "$n" -gt 0 ];do IFS= read -r l||break 2;c=$c$l$N;n=$((n-1));done;eval "$c";done;'
    '"$runbook_end"'
)
"""The line that makes a lane of the shell: read a count, that many lines, evaluate them, and again.

A frame that was cut off in the middle is never run. ``runbook_end`` names what is done at the end of the input.
"""

GUARD = r"""
runbook_bad=
if [ "$(command -p id -u 2>/dev/null)" = 0 ]; then
  runbook_bad=:$(IFS=:; set -f
    { w=/
    for d in $PATH; do
      case $d in /*) r=$(cd -P -- "$d" && pwd -P);; *) continue;; esac
      printf 'for %s\nreal %s\n' "$d" "$r"
      for x in "$d" "$r"; do
        while case $x in /?*) true;; *) false;; esac; do w=$w:$x; x=${x%/*}; done
      done
    done 2>/dev/null
    command -p ls -ldn /proc; command -p ls -ldn -- $w; echo in; command -p ls -ldnL -- $PATH; } 2>/dev/null |
    command -p awk '
      function unsafe(p) { for (; p != ""; sub(/\/[^\/]*$/, "", p)) if (p in bad) return 1; return "/" in bad }
      /^for / { d[++n] = substr($0, 5); next }
      /^real / { r[n] = substr($0, 6); next }
      !root { root = $3 "r"; next }
      $0 == "in" { into = 1; next }
      {
        p = $0; sub(/^[^\/]*/, "", p); if ($1 ~ /^l/) sub(/ -> .*/, "", p)
        if ($3 != 0 && $3 "r" != root || $1 ~ /^[^l].......w/ && (into || $1 !~ /^.........[tT]/)) {
          if (into) full[p]; else bad[p]
        }
      }
      END { for (i = 1; i <= n; i++) if (d[i] in full || unsafe(d[i]) || unsafe(r[i])) printf "%s:", d[i] }')
fi
runbook_path=$(IFS=:; set -f
  for d in $PATH; do case $d in /*) case $runbook_bad in *":$d:"*) ;; *) printf ':%s' "$d";; esac;; esac; done)
PATH=${runbook_path#:}
[ -n "$PATH" ] || PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
if [ ! -O "${HOME:-/}" ]; then
  runbook_name=$(id -un 2>/dev/null)
  case $runbook_name in ""|*[!A-Za-z0-9._-]*) ;; *) eval "HOME=~$runbook_name"; export HOME;; esac
  case $HOME in /*) ;; *) HOME=/; export HOME;; esac
fi
unset runbook_bad runbook_path runbook_name
"""
"""What a shell takes from whoever logged in, made fit for the user that it runs as.

Programs are not sought in the current directory (an empty or relative entry of PATH), and by root not in directories
of other users or which everybody may write to, nor below such a directory (unless it has the sticky bit), by which name
or link ever: its owner could put another one in their place.  In a user namespace the machine's root may have another number than 0
(``overflowuid``): it is that of the owner of /proc, which is the kernel's own and which no user can make.  HOME, where programs have their configuration, is the user's own: some
hosts' sudo leaves that of whoever logged in.
"""

LEASH = (
    GUARD
    + HIDDEN
    + r"""
trap '' PIPE HUP
all=
say() { printf '%s\n' "$*" 2>/dev/null; }
nap() { sleep 0.1 2>/dev/null || sleep 1; }
lives() {
  kill -0 "-$1" 2>/dev/null || return 1
  printf '%s\n' /proc/[0-9]*/stat | xargs grep -s -l -E "\) [A-Za-z] [0-9]+ $1 " 2>/dev/null | {
    r=1
    while IFS= read -r f; do
      s=; while IFS= read -r l || [ -n "$l" ]; do s=$s$l; done 2>/dev/null <"$f"
      p=${s%% *}; k=${s#* (}; k=${k%)*}; s=${s##*) }
      case $s in Z*|X*) continue;; esac
      g=${s#* }; g=${g#* }; g=${g%% *}
      [ "$g" = "$1" ] || continue
      [ -z "$2" ] || say "survivor $2 $p ${s%% *} $k"
      r=0
    done
    exit "$r"
  }
}
uids() {
  u=; while read -r k a b c d; do [ "$k" != Uid: ] || { u="$a $b $c $d"; break; }; done 2>/dev/null <"/proc/$1/status"
}
uids self; me=${u#* }; me=${me%% *}
escaped() {
  w="[[:space:]]+$me"
  printf '%s\n' /proc/[0-9]*/status | xargs grep -s -l -E "^Uid:$w$w$w$w\$" 2>/dev/null | sed 's/status$/environ/' |
    xargs grep -s -l "RUNBOOK_LANE=$1" 2>/dev/null | while IFS= read -r f; do
    p=${f#/proc/}; p=${p%/environ}
    uids "$p"; [ "$u" = "$me $me $me $me" ] || continue
    kill -s KILL "$p" 2>/dev/null
  done
}
finish() {
  kin=; [ "$3" = 0 ] || cage "$2" || kin "$1"
  kill -TERM "-$1" 2>/dev/null; kill -CONT "-$1" 2>/dev/null
  i=0; e=$(($(date +%s)+($3+19)/10))
  while [ "$i" -lt "$3" ] && lives "$1" '' && [ "$(date +%s)" -lt "$e" ]; do nap; i=$((i+1)); done
  [ "$3" = 0 ] || cage "$2" || ! kill -0 "-$1" 2>/dev/null || kin "$1"
  kill -KILL "-$1" 2>/dev/null
  escaped "$2"; escaped "$2"; hidden "$1" "$2"
  i=0; while [ "$i" -lt 5 ] && hold_on "$1" "$2"; do nap; i=$((i+1)); done
  hold_on "$1" "$2"
  for p in $left; do tell_it "$p" "$2"; done
  lives "$1" "$2"
  uncage "$2"
  say "over $2"
}
begin() {
  (
    trap 'kill "$z" 2>/dev/null; exit 0' TERM
    i=0
    while [ "$i" -lt "$3" ]; do
      sleep 1 & z=$!; wait "$z"; i=$((i+1))
      kill -0 "-$1" 2>/dev/null || { uncage "$2"; exit 0; }
    done
    trap '' TERM
    [ "$4" = never ] || finish "$1" "$2" "$5"
    say "late $2"
  ) &
  eval "t_$2=$!"
}
done_() {
  eval "t=\${t_$1:-}"; [ -z "$t" ] || kill -s TERM "$t" 2>/dev/null
  eval "t_$1="
}
printf '\nready\n'
while IFS=' ' read -r verb group lane a b c d; do
  case $verb in
    hold) all="$all $group:$lane:look";;
    write) case $d in /sys/fs/cgroup*/runbook-command-*) eval "d_$lane=\$d";; esac
      all="$all $group:$lane:write"; begin "$group" "$lane" "$a" "$b" "$c";;
    begin) begin "$group" "$lane" "$a" "$b" "$c";;
    end) done_ "$lane";;
    drop) done_ "$lane"; m=; for it in $all; do [ "${it#*:}" = "$lane:look" ] || [ "${it#*:}" = "$lane:write" ] || m="$m $it"; done; all=$m; uncage "$lane";;
    finish) done_ "$lane"; finish "$group" "$lane" "$a";;
  esac
done
for it in $all; do
  case $it in *:look) it=${it%:look}; done_ "${it#*:}"; finish "${it%%:*}" "${it#*:}" 3;; esac
done
"""
)
"""Ends process groups by ``kill -TERM -GROUP``: busybox's kill knows no ``--``.

Orders, one a line: ``VERB GROUP LANE SECONDS KILL|NEVER TENTHS CGROUP``.  At end of file every look is ended.
What a process is called may hold lines, so that each is read whole.  ``escaped`` ends who left the group with the
lane's mark, if that is a process of the user who runs this: anybody may write a mark that he has seen into his own
environment.  The environments of others are not even read: they may lie on a file system of theirs that never answers,
and no signal ends who waits for that.

``hidden`` ends who cleared that, too (``engine.sessions.hidden_children``); a look that ended by itself (0 tenths) is
not searched for those, which costs as much as a look."""

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
else echo "the host's lock could not be kept, and nothing was begun" >&2; (exit 75); fi"""
"""Adds the shell of a write to the lock, and runs it only then: the lock may have ended with our connection."""


def command_text(command: Command, token: str) -> str:
    """The frame that runs *command* and then marks both streams with *token*.

    What a write prints goes through relays, which outlive our line.  Where a relay was killed, and the mark with it, the
    last marks tell that the command is over and its exit code is lost: when nobody reads them any more, the shell goes on
    all the same, to its end.
    """
    body = _body(command)
    marks = f"r=$?; printf '\\n{token} %d\\n' \"$r\"; printf '\\n{token}\\n' >&2"
    if fit := _fit(command):
        marks = marks.replace("%d", "%s").replace("r=$?", f'r=$?; [ -n "$f" ] || r={REFUSED}')
        body = f'{fit} || f=; [ -z "$f" ] || {body}'
    if command.effect is not Effect.WRITE:
        return f"f=1\n{body}\n{marks}\n"
    if command.lock:
        body = _KEEP_LOCK % (shlex.quote(command.lock), body)
    relay = "{ trap '' PIPE; cat 2>/dev/null || cat >/dev/null; }"
    lost = f"trap '' PIPE; printf '\\n{token} -\\n'; printf '\\n{token} -\\n' >&2"
    return (
        f"exec 4>&2\nf=1\n{{ {{ {{ {body}\n{marks}; }} 2>&1 1>&6 4>&- 6>&- | {relay} 1>&4 4>&- 6>&-; }} 6>&1 4>&4"
        f" | {relay} 4>&-; }}\n{lost}\n"
    )


REFUSED = "!"
"""Stands in a mark for the exit code of a command that was not begun; stderr says why."""

_FIT = (
    SAFE
    + r"""
no() {
    case $owner in
        '') ;;
        *[!0-9]*) owner=": give the step \`become: $owner\`" ;;
        *) owner='; the host has no name for that user: give the directory to root, or to a user with a name' ;;
    esac
    printf '%s%s\n' "$(printf %s "$why" | tr '\n' '?')" "$owner" >&2
    exit 1
}
place() {  # path: sets at to it, from / on
    case $1 in /*) at=$1 ;; *) at=$from/$1 ;; esac
}
folder() {  # directory: that nobody else can put a file there
    place "$1"
    safe_resolve "$at" last || no
    if [ "$kind" = directory ]; then safe_step "$real" || no; fi
    [ "$shared" = no ] || { why="everybody can put files in $real"; no; }
}
program() {  # program, or script for one: that nobody else can put another one there
    place "$1"
    safe_resolve "$at" last || case $shared:$why in "no:there is no directory "*) return 0 ;; *) no ;; esac
    [ "$kind" != absent ] || [ "$shared" = no ] || { why="everybody can put a file there: $real"; no; }
    [ "$kind" = file ] || return 0
    safe_ours "$uid" || { safe_belongs "$real" "$uid" 'who could exchange what is in it meanwhile'; no; }
    case $mode in
        ????????w*) why="everybody can write to $real"; no ;;
        ?????w*) safe_alone "$gid" "$mode" || { why="others (group $gid, or an ACL) can write to $real"; no; } ;;
    esac
}
[ "$safe_me" = 0 ] || exit 0
cwd=$1 paths=$2 from=$(pwd -P); shift 2
if [ -n "$cwd" ]; then
    place "$cwd"; cwd=$at
    cd -- "$cwd" 2>/dev/null || exit 0  # that is shown when it is tried
    now=$(pwd -P)
    folder "$cwd"
    [ "$real" = "$now" ] || { why="$cwd leads elsewhere than a moment ago"; no; }
    from=$now
fi
while [ -n "$paths" ]; do
    one=${paths%%:*}
    case $paths in *:*) paths=${paths#*:} ;; *) paths='' ;; esac
    if [ -n "$one" ] && [ -d "$one" ]; then folder "$one"; fi
done
while [ $# -gt 0 ]; do  # programs that only start another one
    case $1 in */*) program "$1" ;; esac
    case ${1##*/} in env|nice|nohup|timeout|setsid|stdbuf|ionice|time) shift ;; *) break ;; esac
    while case ${1-} in ''|*/*) false ;; -*|*=*|[0-9]*) true ;; *) ! command -v -- "$1" >/dev/null ;; esac; do shift; done
done
case ${1-} in '') exit 0 ;; esac
case ${1##*/} in
    perl*|ruby*|node|php*|lua*) code='-*[eEr]' ;;
    python*|pypy*|sh|bash|dash|ash|ksh|zsh|fish) code='-[cm]' ;;
    *) exit 0 ;;
esac
shift
for word; do
    case $word in $code) exit 0 ;; -*) continue ;; esac  # the text itself is the author's
    place "$word"
    if [ -f "$at" ] || [ -L "$at" ]; then program "$word"; exit 0; fi
done
exit 0
"""
)
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
