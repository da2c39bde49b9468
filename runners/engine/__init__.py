"""The engine: planning, scheduling, the run folder and resume."""
