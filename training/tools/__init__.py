"""The `rl` toolset: an agent inspects trainings and proposes new ones. Only a person starts them."""
