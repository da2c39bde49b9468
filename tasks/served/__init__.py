"""Families whose tools come from an MCP server of their own. They belong to no domain."""
