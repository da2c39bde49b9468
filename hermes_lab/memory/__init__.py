"""What the agent remembers besides skills: its notes, and memories of past work in a vector store."""
