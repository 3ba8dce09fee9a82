"""Actions on NVLink, NVSwitch fabrics and InfiniBand."""
