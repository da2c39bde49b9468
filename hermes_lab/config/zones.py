"""Time zones by name."""

from zoneinfo import ZoneInfo, available_timezones

from hermes_lab.text.suggest import did_you_mean


def check_zone(zone: str) -> str:
    """Returns the zone. Raises `ValueError` if there is none of that name; "" is allowed."""
    try:
        if zone:
            ZoneInfo(zone)
    except (ValueError, KeyError, OSError):  # unknown, no relative path, or a folder such as `Europe`
        mend = did_you_mean(zone, available_timezones(), "give a name such as Europe/Berlin or UTC")
        raise ValueError(f"no time zone {zone!r}{mend}") from None
    return zone
