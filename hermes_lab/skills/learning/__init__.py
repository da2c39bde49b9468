"""How a library learns: what may be written, what is listed, and how skills fare."""
