"""Fakes of external services and other shared test helpers."""
