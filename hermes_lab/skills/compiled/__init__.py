"""Compiled skills: functions that are checked, tested and run in the sandbox."""
