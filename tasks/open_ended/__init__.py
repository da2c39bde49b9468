"""Open-ended tasks: a module a story, each composed of families of several domains."""
