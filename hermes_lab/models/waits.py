"""How long a server asks its clients to wait."""

import email.utils
import math
import re
import time
from collections.abc import Mapping

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|h|m|s)[a-z]*")
_SECONDS = {"ms": 0.001, "milli": 0.001, "h": 3600.0, "m": 60.0, "s": 1.0}
_LENGTH = r"((?:\d+(?:\.\d+)?\s*[a-z]+[\s,]*)+)"
# OpenAI and Groq; Gemini, in words and in `google.rpc.RetryInfo`.
_IN_WORDS = re.compile(rf"(?:try again|retry) (?:in|after) {_LENGTH}|\"retrydelay\"\s*:\s*\"([^\"]+)\"")
_RESETS = ("x-ratelimit-reset-requests", "x-ratelimit-reset-tokens", "x-ratelimit-reset")
_LONG_AGO = 1e9
"""A larger number is a Unix time, and a thousand times it one in milliseconds."""


def stated_wait(headers: Mapping[str, str], body: str) -> float | None:
    """The seconds that a refusal asks to wait: its `retry-after-ms`, its Retry-After (RFC 9110, 10.2.3), or the longest
    wait in its words; None if it states none. `headers` are looked up in lower case."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    if (asked := retry_after(headers.get("retry-after", ""))) is not None:
        return asked
    found = [duration(words or delay) for words, delay in _IN_WORDS.findall(body.lower())]
    return max((seconds for seconds in found if seconds is not None), default=None)


def reset_wait(headers: Mapping[str, str]) -> float | None:
    """The seconds until the used-up limits are whole again, which is the longest that a wait can be worth; None if the
    headers do not say it. A limit of which something remains is not to blame."""
    waits = [
        seconds
        for name in _RESETS
        if _is_used_up(headers.get(name.replace("reset", "remaining"), "0"))
        and (seconds := _until(headers.get(name, ""))) is not None
    ]
    return max(waits, default=None)


def retry_after(header: str) -> float | None:
    """The seconds in either form of the header Retry-After; None for anything else, and for a time that has passed."""
    if (seconds := _number(header)) is not None:
        return seconds
    try:
        seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return seconds if seconds >= 0 else None


def duration(text: str) -> float | None:
    """The seconds in `34s`, `6m0s`, `1.5 seconds` or `120ms`; None without a unit."""
    parts = _DURATION.findall(text)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts) if parts else None


def _until(value: str) -> float | None:
    """The seconds in a header: a duration, a number of seconds, or a Unix time."""
    if (number := _number(value)) is None:
        return duration(value)
    if number > _LONG_AGO:
        number = (number / 1000 if number > _LONG_AGO * 1000 else number) - time.time()
    return max(number, 0.0)


def _is_used_up(remaining: str) -> bool:
    return _number(remaining) in (0.0, None)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
