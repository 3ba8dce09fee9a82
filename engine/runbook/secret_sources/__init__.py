"""Read the values of secrets from the places that ``secrets:`` names, right before a run begins."""
