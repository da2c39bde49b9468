"""The skill library: format, snapshots and writes."""
