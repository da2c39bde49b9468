"""Skill learning: what may be written, what prompts list, and how well skills work."""
