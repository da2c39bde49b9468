"""Text utilities: clipping, fuzzy replacement, diffs."""
