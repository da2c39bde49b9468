"""Counts in sentences."""


def counted(count: int, what: str) -> str:
    """`0 skills`, `1 skill`, `1,200 skills`, for nouns whose plural only adds an s."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
