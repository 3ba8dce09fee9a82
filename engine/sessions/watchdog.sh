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
    slept=0
    while [ "$slept" -lt "$3" ]; do
      sleep 1 & z=$!; wait "$z"; slept=$((slept+1))
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
