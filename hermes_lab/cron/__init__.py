"""Scheduled jobs: prompts and commands that run at set times, and are never run twice for one of them."""
