"""Rollouts and bootstrap refits on a Ray cluster."""
