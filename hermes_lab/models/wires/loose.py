"""Reads JSON of unknown quality: missing fields and those of a wrong type become empty."""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from hermes_lab.errors import ModelError

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_REPLACEMENT = "\ufffd"
_MOST_TOKENS = 2**40


def decode_json(content: bytes) -> Any:
    """The JSON value of a reply's bytes. Raises `ModelError` if they are not JSON.

    Skips a byte-order mark. Broken UTF-8 and lone surrogates, which records cannot contain, become U+FFFD.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return sanitised(json.loads(content.decode(errors="replace"), strict=False))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"the reply is not JSON: {error}") from None


def sanitised(value: Any) -> Any:
    """The value without anything that JSON cannot represent. NaN and infinities become null."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub(_NO_REPLACEMENT, value)
    if isinstance(value, list):
        return [sanitised(each) for each in value]
    if isinstance(value, dict):
        return {sanitised(key): sanitised(each) for key, each in value.items()}
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def mapping(value: object) -> Mapping[str, Any]:
    """An object, or an empty one."""
    if isinstance(value, dict):  # what JSON gives; the check by the abstract class takes ten times as long
        return value
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """An array, or an empty one."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """A string, or an empty one."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """A number of tokens; 0 if it is missing or impossible, such as 2**63. Sums of counts must fit 64 bits too."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value < _MOST_TOKENS else 0
