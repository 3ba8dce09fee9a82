"""The commands and the wiring: the only package that names concrete plugins."""
