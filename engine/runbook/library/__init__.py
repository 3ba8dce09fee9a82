"""The standard library: a subject's actions, and below them in `facts/` what they read of a host."""
