"""Programs that are known to change a host, and programs that are known to only read it."""
