"""Actions on the jobs that use the GPUs of a host."""
