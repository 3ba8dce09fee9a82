# Where a host keeps what is this user's alone, such as locks and copies of files; behind SAFE.

lock_declared() { # directory: whether this very user has reserved it for locks; the environment may be somebody else's
    [ -n "$1" ] && safe_enter "$1" && [ "$shared" = no ] && safe_stat . && [ "$uid" = "$safe_me" ] || return 1
    [ "${mode%.}" = drwx------ ] && safe_stat ./.runbook-locks && [ "$uid" = "$safe_me" ]
}

lock_home() { # sets home to that of this user, as the system knows it: HOME may be that of anybody who became this user
    home='' user=$(id -un 2>/dev/null) || user=''
    case $user in [A-Za-z0-9_]*) ;; *) user='' ;; esac
    case $user in '' | *[!A-Za-z0-9._@+-]*) ;; *) eval "home=~$user" ;; esac
    case $home in /*) ;; *) home=${HOME-} ;; esac
}
