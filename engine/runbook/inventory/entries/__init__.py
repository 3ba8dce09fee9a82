"""The special entries of our own inventories: ranges of hosts, defaults for all, and slips of top-level keys."""
