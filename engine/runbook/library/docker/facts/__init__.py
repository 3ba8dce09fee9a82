"""The Docker engine of a host: containers, their events and logs, disk usage and the daemon's options."""
