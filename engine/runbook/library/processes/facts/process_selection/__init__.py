"""Choosing processes by command line or by open file, and which of them may be terminated."""
