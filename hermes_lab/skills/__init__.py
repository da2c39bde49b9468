"""The skill library: format, snapshots, writes."""
