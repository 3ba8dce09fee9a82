"""Frozen values that pass between the packages; standard library only."""
