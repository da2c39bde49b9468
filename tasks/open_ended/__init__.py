"""Open-ended tasks: one YAML file per story, each made of families from several domains."""
