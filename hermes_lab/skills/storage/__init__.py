"""Skill libraries on disk."""
