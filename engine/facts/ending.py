"""End processes by pid and start time, and by nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.facts.processes import Process
from engine.values.command import Command, write_script
from engine.values.plan import Target

FATES: Mapping[str, str] = {
    "gone": "ended",
    "absent": "was gone already",
    "reused": "was gone already, and its pid has another process now",
    "mine": "is our own shell or above it, and was left alone",
    "denied": "may not be ended by us",
    "survives": "survives",
}

END = r"""
LC_ALL=C; export LC_ALL
first=$1; second=$2; tenths=$3; after=$4; shift 4
nap() { sleep 0.1 2>/dev/null || sleep 1; }
identity() {
  state=; start=
  { IFS= read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
  while :; do case $line in *') '*) break;; esac; return 1; done
  line=${line##*) }; state=${line%% *}
  set -- $line; start=${20}
  case $state in Z|X) [ -d "/proc/$2/task" ] || return 1;; esac
}
there() {
  identity "${1%%:*}" || return 1
  [ "$start" = "${1#*:}" ] || return 1
  case $state in Z|X) return 1;; esac
  return 0
}
mine=" $$ 1 $PPID "; p=$PPID
while [ "${p:-0}" -gt 1 ] 2>/dev/null; do
  { IFS= read -r line <"/proc/$p/stat"; } 2>/dev/null || break
  line=${line##*) }; line=${line#* }; p=${line%% *}; mine="$mine$p "
done
left=; denied=
for v in "$@"; do
  pid=${v%%:*}
  case $mine in *" $pid "*) echo "mine $v"; continue;; esac
  if there "$v"; then
    if kill -s "$first" "$pid" 2>/dev/null; then left="$left $v"
    elif there "$v"; then denied="$denied $v"; echo "denied $v"
    else echo "gone $v"; fi
  elif [ -n "$start" ] && [ "$start" != "${v#*:}" ]; then echo "reused $v"
  else echo "absent $v"; fi
done
settle() {
  i=0
  while [ "$i" -lt "$1" ] && [ -n "$left" ]; do
    still=
    for v in $left; do
      if there "$v"; then still="$still $v"; else echo "gone $v"; fi
    done
    left=$still
    [ -z "$left" ] || nap
    i=$((i+1))
  done
}
settle "$tenths"
if [ -n "$left" ] && [ "$second" != nothing ]; then
  for v in $left; do there "$v" && kill -s "$second" "${v%%:*}" 2>/dev/null; done
  settle "$after"
fi
for v in $left; do if there "$v"; then echo "survives $v $state"; else echo "gone $v"; left2=; fi; done
for v in $left; do there "$v" && exit 1; done
[ -z "$denied" ] || exit 1
exit 0
"""
"""``FIRST SECOND TENTHS TENTHS PID:START...``: each pid's start time is read again right before each signal."""

AFTER_SECOND = 50
"""Tenths of a second that the second signal may take: the driver frees a large context in seconds."""


def end_processes(victims: Iterable[Process], signal: str, grace: float, then: str) -> Command:
    """End *victims*: *signal*, up to *grace* seconds, then the signal *then* (``nothing`` for none).

    No pattern and no name ever stands on the host's command line, so that nothing can match itself.  Exit code 1 says
    that some survive; the second look says which.
    """
    tenths = str(max(1, round(grace * 10)))
    return write_script(END, signal, then, tenths, str(AFTER_SECOND), *(it.key for it in victims), accepts=(0, 1))


def targets(victims: Iterable[Process]) -> tuple[Target, ...]:
    """*victims* as the targets of a change."""
    return tuple(
        Target(kind="process", key=it.key, say=str(it), pid=it.pid, user=it.user, command=it.command) for it in victims
    )


def survival(before: Iterable[Process], after: Iterable[Process], shown: Mapping[str, str]) -> str:
    """Words for a second look that still sees somebody: who survived in which state, and who came anew.

    *shown* is the state of every process that is there now, by its key.
    """
    victims = {it.key: it for it in before}
    survivors = [
        f"pid {it.pid} survives in state {shown[key]}{_meaning(shown[key])}"
        for key, it in victims.items()
        if key in shown
    ]
    fresh = [f"pid {it.pid} ({it.command[:60]})" for it in after if it.key not in victims]
    words = [", ".join(survivors)] if survivors else []
    words += [f"started anew: {', '.join(fresh)}; something restarts them, so stop that first"] if fresh else []
    return "; ".join(words)


def _meaning(state: str) -> str:
    if state == "D":
        return " (waiting inside the kernel: it cannot be killed; only a reset or a reboot helps)"
    return " (defunct: its parent must reap it)" if state == "Z" else ""
