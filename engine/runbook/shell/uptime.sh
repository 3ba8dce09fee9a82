uptime() { # sets up to the hundredths of a second since the boot; fails where they cannot be read
    { IFS=' ' read -r up up_rest </proc/uptime; } 2>/dev/null || return 1
    case $up in *[!0-9.]* | *.*.* | .*) return 1 ;; *.[0-9][0-9]) up=${up%.*}${up#*.} ;; *) return 1 ;; esac
    while [ "${up#0}" != "$up" ]; do up=${up#0}; done # with a zero before it, it would be an octal number
    up=${up:-0}
}
