"""Families whose tasks need one call of an in-house tool; the only difficulty is to know the rule."""
