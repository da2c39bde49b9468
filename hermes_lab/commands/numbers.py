"""Reads the numbers among a command's arguments."""

from hermes_lab.errors import ConfigError

_MOST_DIGITS = 18  # Python reads no number of thousands of digits, and nothing here needs more


def positive(text: str, name: str, default: int) -> int:
    """The number in `text`, `default` if it is empty. Digits may be grouped by commas or underscores. Raises
    `ConfigError` unless it is a whole number above 0."""
    plain = text.replace(",", "").replace("_", "")
    if not plain:
        return default
    if len(plain) > _MOST_DIGITS and plain.isdecimal():
        raise ConfigError(f"{name}: a number of {len(plain)} digits is too large")
    if not plain.isdecimal() or not int(plain):
        raise ConfigError(f"{name}: {text!r} is not a whole number above 0")
    return int(plain)
