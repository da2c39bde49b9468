"""Updates: a new version is built beside the old one, checked, and switched to by one rename."""
