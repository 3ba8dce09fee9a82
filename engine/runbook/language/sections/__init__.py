"""Sections of a playbook, from its tree to values: the limits and the findings."""
