"""Actions that run commands of the playbook's author."""
