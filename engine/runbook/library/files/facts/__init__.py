"""Read files, directories and file systems of a host, and check whether a path is safe from other users (law 9)."""
