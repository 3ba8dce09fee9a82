"""Text and names without knowledge of hosts: name ranges, similar texts, sizes, times, patterns, secrets, diffs."""
