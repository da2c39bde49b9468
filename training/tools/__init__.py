"""The `rl` toolset: an agent looks at trainings, chooses, and proposes one. Only a person starts it."""
