"""What the agent remembers besides skills: its notes, and past work by its meaning."""
