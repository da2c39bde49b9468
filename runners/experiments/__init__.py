"""Experiments and studies: which lanes, in which order, and their power."""
