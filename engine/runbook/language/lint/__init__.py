"""Warnings about playbooks that load: the rules, what they see, and the comments that allow an exception."""
