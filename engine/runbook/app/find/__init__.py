"""From an error text to the playbooks that are for it."""
