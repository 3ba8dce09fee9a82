"""The sh functions by which what hides from its command, without its mark and out of its session, is ended with it."""

from __future__ import annotations

HIDDEN = r"""
stat_of() {
  s=; while IFS= read -r l || [ -n "$l" ]; do s=$s$l; done 2>/dev/null <"/proc/$1/stat"
  k=${s#* (}; k=${k%)*}
  set -- ${s##*) }
  state=${1:-}; pgrp=${3:-}; start=${20:-}
  [ -n "$start" ]
}
kin() {
  kin="$kin "$(printf '%s\n' /proc/[0-9]*/stat | LC_ALL=C xargs grep -a -s -H "" 2>/dev/null |
    LC_ALL=C awk -v group="$1" '
    {
      at = index($0, "/stat:"); p = substr($0, 7, at - 7); s = substr($0, at + 6)
      while ((k = index(s, ") ")) > 0) s = substr(s, k + 2)
      last[p] = s
    }
    END {
      for (p in last) {
        if (split(last[p], v, " ") < 20) continue
        start[p] = v[20]; child[v[2], ++n[v[2]]] = p
        if (v[3] == group) { seen[p]; todo[++many] = p }
      }
      for (at = 1; at <= many; at++)
        for (i = 1; i <= n[todo[at]]; i++) {
          p = child[todo[at], i]
          if (p in seen) continue
          seen[p]; todo[++many] = p; print p ":" start[p]
        }
    }')
}
each_of_kin() {
  for one in $kin; do
    p=${one%%:*}
    [ "$p" != $$ ] && stat_of "$p" && [ "$start" = "${one#*:}" ] && "$@"
  done
}
each_in_cage() {
  while IFS= read -r p; do case $p in ''|0|*[!0-9]*) ;; *) "$@";; esac; done 2>/dev/null <"$d/cgroup.procs"
}
kill_it() { kill -s KILL "$p" 2>/dev/null; }
left_it() {
  stat_of "$p" || return 0
  case $state in Z*|X*) ;; *) [ "$pgrp" = "$1" ] || left="$left $p";; esac
}
tell_it() { stat_of "$1" && say "survivor $2 $1 $state $k"; }
cage() {
  eval "d=\${d_$1:-}"
  [ -n "$d" ] && [ -O "$d/cgroup.procs" ]
}
hidden() {
  if cage "$2"; then
    { echo 1 >"$d/cgroup.kill"; } 2>/dev/null && return
    { echo 1 >"$d/cgroup.freeze"; } 2>/dev/null
    for i in 1 2 3; do each_in_cage kill_it; done
    { echo 0 >"$d/cgroup.freeze"; } 2>/dev/null
  else
    each_of_kin kill_it
  fi
}
hold_on() {
  left=
  if cage "$2"; then each_in_cage left_it "$1"; else each_of_kin left_it "$1"; fi
  [ -n "$left" ] || lives "$1" ''
}
uncage() {
  cage "$1" || return 0
  for i in 1 2 3; do
    while IFS= read -r p; do
      case $p in ''|0|*[!0-9]*) ;; *) { echo "$p" >"${d%/*}/cgroup.procs"; } 2>/dev/null;; esac
    done 2>/dev/null <"$d/cgroup.procs"
    rmdir "$d" 2>/dev/null && break
    [ -d "$d" ] || break
  done
}
"""
"""Of the watchdog. ``hidden`` ends what is to go with a command, ``hold_on`` says whether and what of it is left.

Of a change that has a control group of its own (``CAGE``) that is everything in it. Without one it is what descends
from the process group (``kin``, as pid:start, searched for before anything is ended); a process whose parent has
already ended is then a child of process 1 and cannot be known from a stranger. ``uncage`` moves what is left, such as a
daemon of a change that ended well, into the control group above, where it would be without us.
"""

CAGE = r"""
runbook_end=runbook_uncage
runbook_uncage() {
  [ -d "$runbook_cage" ] || return 0
  for p in 1 2 3; do
    { echo 0 >"${runbook_cage%/*}/cgroup.procs"; } 2>/dev/null
    while IFS= read -r l; do
      case $l in ''|0|*[!0-9]*) ;; *) { echo "$l" >"${runbook_cage%/*}/cgroup.procs"; } 2>/dev/null;; esac
    done 2>/dev/null <"$runbook_cage/cgroup.procs"
    rmdir "$runbook_cage" 2>/dev/null && break
    [ -d "$runbook_cage" ] || break
  done
}
runbook_enter() {
  [ -O "$1" ] && [ -O "$1/cgroup.procs" ] && [ -e "$1/cgroup.controllers" ] || return 1
  g=
  while IFS= read -r l; do [ "$l" != $$ ] || g=here; done <"$1/cgroup.procs"
  [ -n "$g" ] || return 1
  for g in "$1"/runbook-command-*; do
    while IFS= read -r l; do [ "$l" != 'populated 0' ] || rmdir "$g"; done <"$g/cgroup.events"
  done
  mkdir -m 700 "$1/$2" || return 1
  if echo 0 >"$1/$2/cgroup.procs" && [ -O "$1/$2/cgroup.procs" ]; then runbook_cage=$1/$2; return 0; fi
  echo 0 >"$1/cgroup.procs"
  rmdir "$1/$2"
  return 1
}
s=
while IFS= read -r l; do case $l in 0::/*) s=${l#0::}; s=${s%/};; esac; done 2>/dev/null </proc/self/cgroup
case $s in
  *[!A-Za-z0-9_.:@/-]*|*/..|*/../*) ;;
  *) for p in '' /unified; do runbook_enter "/sys/fs/cgroup$p$s" "$runbook_name" && break; done 2>/dev/null;;
esac
unset runbook_name
"""
"""Has the shell enter a control group of its own (cgroup v2), and all that it starts with it, where its user may.

Only for a change that is carried out, for it makes a directory. It lies in the control group that the shell is in,
which must be the user's own, and be where we think that it is: a container can be shown the tree of its host. No
descendant leaves it but on purpose (``outlive`` in ``engine/shell``). When the change is over, the watchdog moves what
is left up and removes the group; when the line is cut, the shell does at the end of its input; where both were killed,
the next change. A pid 0 is a process in another pid namespace. The name holds no long row of hexadecimal digits, which
would be taken for the id of a container.
"""


def cgroup_name(lane: str) -> str:
    """What the control group of the lane named *lane* is called."""
    return "runbook-command-" + "-".join(lane[at : at + 4] for at in range(0, len(lane), 4))
