"""The agent loop, its prompt, its budget and the review after an episode."""
