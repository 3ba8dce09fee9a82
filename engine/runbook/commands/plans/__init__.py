"""Saved plans: make them, show them, approve them, and apply each once, while it is still true."""
