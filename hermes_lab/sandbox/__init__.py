"""Isolated workspaces, a fresh one for every episode."""
