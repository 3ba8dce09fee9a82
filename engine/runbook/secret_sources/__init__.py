"""Take the values of secrets from where ``secrets:`` says that they are, right before a run begins."""
