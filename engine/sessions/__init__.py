"""How commands run over shell channels, and how they are ended on the host.

Each user of a host has a *watchdog*, a shell that only reads orders, and a *lane*, a shell that runs frames, one
after the other. sshd makes every exec the leader of its own session and process group, so that the watchdog can end
all that runs on a lane with one signal to its group. All probes of a user share one lane, those of authors too: what
one of these leaves behind is ended before the next frame (``leftovers.sh``). Each write has a lane of its own. When
the line is gone the watchdog reads an end of file, ends probes by itself, and lets writes run on to their own
timeout. Nothing but a POSIX shell and the usual small tools is needed on the host.
"""
