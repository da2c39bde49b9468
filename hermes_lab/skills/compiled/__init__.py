"""Skills with code: checked, tested and run in the sandbox."""
