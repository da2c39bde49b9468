"""Intervals, tests and power, on plain arrays."""
