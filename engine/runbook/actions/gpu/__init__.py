"""Actions on GPUs."""
