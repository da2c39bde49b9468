"""Time zones by name."""

from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones


def check_zone(zone: str) -> str:
    """Returns the zone. Raises `ValueError` if there is none of that name; "" is allowed."""
    try:
        if zone:
            ZoneInfo(zone)
    except (ValueError, KeyError, OSError):  # unknown, no relative path, or a folder such as `Europe`
        near = get_close_matches(zone, available_timezones(), 1)
        mend = f"did you mean {near[0]}?" if near else "give a name such as Europe/Berlin or UTC"
        raise ValueError(f"no time zone {zone!r}; {mend}") from None
    return zone
