"""Runs lanes: planning, scheduling, the run folder and resume."""
