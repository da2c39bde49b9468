"""One module a group of commands; each registers itself on the application."""
