# Notes for people and other controllers, beside the locks of this user: which clean-ups a run owes this host.
#
# Stands before the script of the locks, which goes to their place and calls lock_note or lock_unnote there: $1 note or
# unnote, $2 the name of the note, $3 the run, $4 the note's lines for people. Nobody ever executes what is in a note. Its
# first line names the processes that last as long as the connection of the run, as an entry of the locks does.

noted='' doubts=''
trap '[ -n "$noted" ] || printf "%s\n" "${why:-${doubts#; }}" >&2' EXIT

lock_note() { # makes the note, or replaces it, in one stroke
    owed_new=new-owed-$(safe_random)
    safe_process self || { why='/proc cannot be read'; return 1; }
    lock_keys
    why="$place cannot be written to"
    { printf '%s\n%s\n' "$keys" "$words" >"./$owed_new"; } 2>/dev/null || { rm -f -- "./$owed_new"; return 1; }
    safe_put "./$owed_new" "owed-$name" || { rm -f -- "./$owed_new"; return 1; }
    noted=yes
    echo noted
}

lock_unnote() { # removes the note; a host that has none has been restarted, or its note was removed by somebody else
    rm -f -- "./owed-$name" 2>/dev/null || { why="$place/owed-$name cannot be removed"; return 1; }
    cd .. && rmdir "./$safe_realm" 2>/dev/null
    noted=yes
    echo removed
}
