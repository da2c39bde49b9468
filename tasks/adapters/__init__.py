"""Third-party suites, each by an adapter with a `load()`."""
