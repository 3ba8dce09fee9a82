"""The kernel log of a host: messages with their times, and the events and faults that they report."""
