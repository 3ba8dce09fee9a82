"""The special entries of runbook's own inventories: ranges of hosts, defaults, and mistyped top-level keys."""
