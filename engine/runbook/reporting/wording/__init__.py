"""A run in words for people: lines of hosts and steps, causes with their hosts, next actions."""
