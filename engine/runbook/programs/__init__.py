"""Programs that are known to change a host, or only to read it."""
