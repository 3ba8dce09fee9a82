"""Wiring: the only room that names concrete plugins."""
