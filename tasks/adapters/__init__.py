"""Adapters of third-party suites, each with a `load()`."""
