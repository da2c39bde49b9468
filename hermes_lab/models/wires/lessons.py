"""Learns from an endpoint's refusals how it wants its requests."""

import re
from collections.abc import Mapping
from typing import Any

from hermes_lab.models.refusals import Refused

TEACHING = frozenset({400, 405, 406, 415, 422})
"""HTTP statuses of refusals that concern the form of the request."""
_WANTS_STREAM = re.compile(
    r"(?:only|must|requires?|need\w*|please|should)\b.{0,60}\bstream"
    r"|stream\w*['\"`]?\s.{0,40}\b(?:only|must|required|true)\b"
    r"|non-?streaming.{0,60}(?:not |un)(?:supported|allowed|available)"
    r"|streaming is (?:strongly )?re(?:quired|commended)"
)


_STREAM = re.compile(r"(?<![a-z])stream(?:s|ed|ing)?(?![a-z])")


def refuses_stream(refused: Refused, body: Mapping[str, Any]) -> bool:
    """Whether the refusal of a request for a stream concerns the stream. Any mention counts: asking for the whole reply
    instead does no harm."""
    asked = refused.status in TEACHING | {501} and bool(body.get("stream"))
    return asked and _STREAM.search(str(refused).lower()) is not None


def wants_stream(refused: Refused, body: Mapping[str, Any]) -> bool:
    """Whether the refusal of a request without streaming says that the endpoint only streams."""
    asked = refused.status in TEACHING and not body.get("stream")
    return asked and _WANTS_STREAM.search(str(refused).lower()) is not None
