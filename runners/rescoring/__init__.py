"""Applying a changed verifier to the episodes of a run, without running the agent again."""
