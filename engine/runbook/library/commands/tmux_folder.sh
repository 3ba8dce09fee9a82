folder_fits() {  # directory: whether root may start programs there; goes there, or sets why and owner
    if [ "$safe_me" != 0 ]; then cd -- "$1" || return; return 0; fi
    safe_enter "$1" || return 1
    [ "$shared" = no ] || { why="everybody can put files in $1"; return 1; }
}
