"""The shell script that sends an HTTP request; address, headers and body reach curl on its stdin."""

from __future__ import annotations

from runbook.shell import script

ASK = script(__package__, "http_request")
"""The body goes to stdout, everything else to stderr.  GNU wget reads the address from stdin; busybox's cannot, so that
an address with a query in it, which may be a secret, is not given to it."""

SEND = script(__package__, "http_send")
"""What a change is answered with may hold what nobody else should know (a new token): its body stays on the host, but
for the first words of an error."""
