"""Warnings about playbooks that load: the rules, what they look at, and the comments that allow an exception."""
