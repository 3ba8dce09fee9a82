LC_ALL=C; export LC_ALL
verb=probe run=$1 sum=$2 most=$3
no() { printf '%s\0' none "$why"; exit 0; }
undo_place "$run" || no
undo_open "$sum" || no
now=$(sha256sum) || { why='there is no sha256sum on this host'; no; }
[ "${now%% *}" = "$sum" ] || { why="the copy $(pwd -P)/$sum is not as it was written"; no; }
printf '%s\0' copy "$(wc -c <"./$sum")"
head -c "$most" "./$sum"
