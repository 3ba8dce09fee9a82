"""How commands run over shell channels, and how they are ended on the host.

Each user of a host has a *watchdog*, a shell that only reads orders, and a *lane*, a shell that runs frames, one after
the other.  sshd makes every exec the leader of its own session and process group, so that the watchdog can end all that
runs on a lane with one signal to its group.  When the line is gone the watchdog reads an end of file, and ends looks by
itself; writes it lets run on to their own timeout.  Nothing but a POSIX shell and the usual small tools is needed on
the host.
"""
