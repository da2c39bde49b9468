"""Interactive chat sessions."""
