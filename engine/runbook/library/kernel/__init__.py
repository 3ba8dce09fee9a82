"""Actions on the kernel's log and modules."""
