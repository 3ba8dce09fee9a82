"""Files, directories and file systems of a host, and whether a path is safe from other users (law 9)."""
