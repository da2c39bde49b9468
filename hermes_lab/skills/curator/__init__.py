"""Maintains a library: finds and merges duplicates, and retires skills."""
