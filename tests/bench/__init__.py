"""Benchmarks: ratios side by side in one run, never seconds to be asserted."""
