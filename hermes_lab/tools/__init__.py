"""Tools, a file each, discovered by the registry."""
