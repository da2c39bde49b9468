"""Families that bring an MCP server for their tools. They belong to no domain."""
