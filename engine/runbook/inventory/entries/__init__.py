"""What our own inventories say of hosts: ranges of them, defaults for all, and slips of top-level keys."""
