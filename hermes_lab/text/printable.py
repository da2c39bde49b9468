"""Makes text safe to print."""


def printable(text: str, keep: str = "") -> str:
    """Replaces control characters, so that model output cannot control the terminal. `keep` lists exceptions."""
    return "".join(c if c.isprintable() or c in keep else " " for c in text)
