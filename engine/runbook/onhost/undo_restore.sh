verb=restore
undo_place "$1" || die 12 "nothing was written: $why"
undo_open "$2" || die 12 "nothing was written: $why"
shift 2
