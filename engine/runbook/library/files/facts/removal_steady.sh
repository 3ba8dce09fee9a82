case $(rm --version 2>/dev/null) in *'GNU coreutils'*) steady=yes ;; *) steady=no ;; esac
led_astray() {  # directory: whether rm could be led elsewhere in it; sets why and owner
    [ "$steady" = no ] || return 1
    why='its content cannot be inspected, and the rm of this host could be redirected while it runs' owner=
    loose=$(find "$1" -xdev -type d \( ! -user 0 ! -user "$safe_me" ! -user "${safe_outside:-0}" \
        -o -perm -002 -o -perm -020 \) -print 2>/dev/null) || return 0
    [ -n "$loose" ] || return 1
    loose=${loose%%"
"*}
    why="others can write to $loose, and redirect the rm of this host while it runs (GNU rm is not affected): \`chmod go-w $loose\`"
    safe_stat "$loose" && ! safe_ours "$uid" || return 0
    safe_belongs "$loose" "$uid" 'who could redirect the rm of this host while it runs (GNU rm is not affected)'
}
