"""Actions on processes."""
