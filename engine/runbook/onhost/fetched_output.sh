# The end of a script that fetches: packs what comes, and says at its end how.
fetch_part() { # at most so many bytes of what comes
    if [ "$end" = yes ]; then tail -c "$most"; else head -c "$most"; fi
}

fetch_pack() {
    if [ "$gzip" = yes ]; then gzip -c; else cat; fi | if [ "$base64" = yes ]; then base64; else od -An -v -tx1; fi
}

gzip=no base64=no
! command -v gzip >/dev/null 2>&1 || gzip=yes
! command -v base64 >/dev/null 2>&1 || base64=yes
