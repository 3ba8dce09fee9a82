"""What a run came to, in words for people: lines of hosts and steps, causes with their hosts, next actions."""
