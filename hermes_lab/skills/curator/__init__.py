"""Keeps a library small: finds duplicates, merges and retires skills."""
