"""Chat: conversations with the agent that are stored, learn from a Hermes home, and recall earlier work."""
