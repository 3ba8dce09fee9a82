"""Actions on configuration files."""
