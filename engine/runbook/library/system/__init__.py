"""Actions on services, packages, memory, repositories, databases and web services."""
