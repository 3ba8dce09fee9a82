"""Saved plans: make them, show them, approve them, and apply each plan once, while it is still true."""
