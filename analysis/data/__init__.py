"""From a run's episode log to tables."""
