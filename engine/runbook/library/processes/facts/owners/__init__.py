"""Whose a process is: a job of the scheduler, a service, a container, a session, a launcher, or nobody's any more."""
