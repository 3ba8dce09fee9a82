"""Actions on containers and on the Docker engine."""
