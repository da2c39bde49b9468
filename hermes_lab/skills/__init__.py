"""The skill library: SKILL.md format, storage, edits, learning and maintenance."""
