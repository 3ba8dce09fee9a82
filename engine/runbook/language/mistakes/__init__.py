"""Mistakes that are recognised by what was meant, so that each of them is said once."""
