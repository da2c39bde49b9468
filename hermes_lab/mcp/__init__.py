"""The client of MCP servers: their tools become tools of an episode, and the record says what they were."""
