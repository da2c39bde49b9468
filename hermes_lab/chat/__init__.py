"""Chat sessions: conversations with the agent, their home knowledge, recalled memories and the review log."""
