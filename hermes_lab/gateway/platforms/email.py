"""email."""
