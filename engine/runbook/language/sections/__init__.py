"""Read sections of a playbook from its tree: limits, findings, symptoms and others."""
