"""The built-in tools, one per module; the registry discovers them."""
