"""The owner of a process: a job of the scheduler, a service, a container, a session, a launcher, or none any more."""
