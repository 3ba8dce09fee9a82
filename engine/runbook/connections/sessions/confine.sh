# Has the shell of a session go on in a mount namespace, by the text in $runbook_confinement.  Only root can.
runbook_line='' runbook_confinement=${runbook_confinement:-} runbook_name=${runbook_name:-}
for runbook_text in '--propagation slave' ''; do
    # shellcheck disable=SC2086  # an option and its value; busybox may not know it
    ! unshare -m $runbook_text true </dev/null >/dev/null 2>&1 || { runbook_line=yes; break; }
done
# shellcheck disable=SC2086
[ -z "$runbook_line" ] || exec unshare -m $runbook_text sh -c "$runbook_confinement" "$runbook_name" "${1:-}"
printf '\nconfined %s no the host gives us no mount namespace (unshare -m)\n' "$runbook_name"
