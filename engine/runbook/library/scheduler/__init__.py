"""Actions on the scheduler of a cluster."""
