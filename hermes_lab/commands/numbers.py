"""Reads the numbers among a command's arguments."""

from hermes_lab.errors import ConfigError


def positive(text: str, name: str, default: int) -> int:
    """The number in `text`, `default` if it is empty. Digits may be grouped by commas or underscores. Raises
    `ConfigError` unless it is a whole number above 0."""
    plain = text.replace(",", "").replace("_", "")
    if not plain:
        return default
    if not plain.isdecimal() or not int(plain):
        raise ConfigError(f"{name}: {text!r} is not a whole number above 0")
    return int(plain)
