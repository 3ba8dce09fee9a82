"""Connections to hosts: transports, and the shell sessions that run in them."""
