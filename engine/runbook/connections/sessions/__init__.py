"""The sessions in which commands run on a host, and the ways to end them there.

Each user of a host has one *session*: a shell that runs batches of commands (``agent.sh``), all the probes of a call in
one go, those of authors too: what one of these leaves behind is ended before the next begins (``leftovers.sh``).  Each
change has a session of its own, and a control group, where that can be had.  sshd makes every exec the leader of its
own session and process group, so that one signal ends all that runs in it.  While a batch runs, two watchers beside it
do that: one when its time is up, and one at the end of the input, when the connection is gone; changes run on to their
own timeout.  Where we end a command ourselves, a second channel is opened for it (``kill_group.sh``), which says what
survives.  Nothing but a POSIX shell and the usual small tools is needed on the host.
"""
