"""The client of MCP servers: their tools become tools of an episode, and what they were stands in the record."""
