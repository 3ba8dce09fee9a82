"""Saved plans: their files, how they are compared, approved and used up."""
