"""The sessions in which commands run on a host, and the ways to end them there.

Each user of a host has one *session*: a shell that runs batches of commands (``agent.sh``).  All probes of one call run
in one batch, probes of authors too: processes that such a probe leaves behind are ended before the next command begins
(``leftovers.sh``).  Each change has a session of its own, and a control group of its own, if the host allows it.  sshd
starts every command as the leader of a new session and process group, so that one signal ends everything in it.  While
a batch runs, two watchers beside it do that: one when the time of the batch is over, and one at the end of the input,
when the connection is lost; a change then runs on until its own timeout.  If runbook itself ends a command, it opens a
second channel for that (``kill_group.sh``), which reports the survivors.  The host needs nothing but a POSIX shell and
the usual small tools.
"""
