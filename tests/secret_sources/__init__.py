"""Tests of `secrets:`: where their values come from, and where they must not get to."""
