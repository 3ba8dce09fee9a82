"""Expressions and templates of a playbook: Jinja2 in a sandbox, over values that may be unknown."""
