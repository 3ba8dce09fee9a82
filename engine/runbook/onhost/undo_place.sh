# The copies of files that runs have changed on this host: RUN/SHA256, in a directory that only this user can enter.

undo_most=90 # days that copies are kept

undo_in() { # directory, directory in it: goes there, and makes what is missing of it where $verb is keep
    [ -d "$1" ] || { why="there is no directory $1"; return 1; }
    if [ "$verb" = keep ]; then safe_make_all "$1/$2" 700 || return 1; else safe_enter "$1/$2" || return 1; fi
    undo_ours "$1/$2"
}

undo_ours() { # words: whether the current directory is this user's, and nobody else may enter it
    if safe_stat . && [ "$uid" = "$safe_me" ] && [ "$shared" = no ] && [ "${mode%.}" = drwx------ ]; then return 0; fi
    why="$1 is not a directory that only $(id -un 2>/dev/null || id -u) can enter"
    return 1
}

undo_place() { # run: goes to the directory of its copies
    case $1 in '' | *[!0-9A-Za-z-]*) why="$1 is not the id of a run"; return 1 ;; esac
    if lock_declared "${RUNBOOK_LOCK_PLACES-}"; then undo_in "$RUNBOOK_LOCK_PLACES" undo || return 1
    elif [ "$safe_me" = 0 ]; then undo_in /var/lib runbook/undo || return 1
    else
        lock_home
        undo_in "$home" .local/state/runbook/undo || return 1
    fi
    undo_top=$(pwd -P)
    [ "$verb" != keep ] || find . ! -name . -prune -type d -mtime "+$undo_most" -exec rm -rf -- {} + 2>/dev/null
    undo_in "$undo_top" "$1"
}

undo_open() { # sha256: the copy of that content becomes stdin
    case $1 in *[!0-9a-f]* | '') why="$1 is no sha256"; return 1 ;; esac
    safe_stat "./$1" || { why="the copy $(pwd -P)/$1 is gone"; return 1; }
    case $uid:$links:$mode in "$safe_me":1:-*) ;; *) why="$(pwd -P)/$1 is not a file of this user"; return 1 ;; esac
    exec <"./$1" || { why="the copy $(pwd -P)/$1 cannot be read"; return 1; }
}
