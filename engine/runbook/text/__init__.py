"""Functions for text and names: ranges of names, similar texts, sizes, times, patterns, secrets, diffs."""
