# How the programs of a scheduler are asked: each for 20 s at most, and in words why one gave no answer.
limited() { if command -v timeout >/dev/null; then timeout 20 "$@" </dev/null; else "$@" </dev/null; fi; }
lines() { sed "s/^/$1 /"; } # kind: every line with that before it
failed() { # exit code, program, what it printed: why it gave no answer
    [ "$1" != 124 ] || { echo "$2 gave no answer within 20 s"; return; }
    words=$(printf '%s\n' "$3" | sed -n 's/[[:cntrl:]]//g; /./{p;q;}' | cut -c 1-300)
    echo "$2 failed (exit code $1)${words:+: $words}"
}
