"""The state that a run keeps on a host, or reads there: its lock, notes, copies, fetched files, and the boot."""
