"""Connections to hosts: the transports, and the shell sessions that run over them."""
