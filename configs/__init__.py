"""The YAML files that the README and the tests use."""
