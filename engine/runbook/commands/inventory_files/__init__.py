"""Inventory files and what lies beside them, read and parsed."""
