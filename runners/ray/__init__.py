"""Rollouts and refits on a Ray cluster."""
