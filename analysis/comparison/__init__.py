"""Comparisons between arms, runs and weights."""
