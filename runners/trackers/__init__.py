"""Experiment trackers that follow a run: one module per service, which imports its client inside functions."""
