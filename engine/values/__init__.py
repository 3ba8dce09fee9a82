"""Frozen values that pass between the rooms; nothing but the standard library."""
