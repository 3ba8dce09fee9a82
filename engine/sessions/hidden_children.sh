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
