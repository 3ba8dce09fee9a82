"""Secrets: which names and texts give them away, in which forms they are written, and how they are hidden."""
