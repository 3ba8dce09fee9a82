"""The operating system of a host: systemd units, packages, memory, git, SQLite, HTTP and the lock of a run."""
