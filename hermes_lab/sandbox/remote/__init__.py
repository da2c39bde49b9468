"""Sandboxes on other machines: the same code as here, run there by a worker, behind one stream of bytes."""
