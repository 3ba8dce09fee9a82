"""The state that a run itself keeps on a host, or reads of it: its lock, notes, copies, fetched files, the boot."""
