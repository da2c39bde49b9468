"""Experiments and studies: their lanes, task orders and statistical power."""
