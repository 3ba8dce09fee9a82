"""What can be asked of a host, and what its answers mean: facts that several actions share."""
