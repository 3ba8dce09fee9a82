"""Clean-ups that are owed to hosts: the records on this machine, and `runbook settle`."""
