"""What Matrix's events mean: texts, threads, mentions, verdicts. Any field of an event may have any type."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_FILES = ("m.image", "m.file", "m.audio", "m.video")
_QUOTE = re.compile(r"(?:^>[^\n]*\n)+\n?")
_VARIATION = re.compile("[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")  # how it is shown, and skin tones
_VERDICTS = {"\N{THUMBS UP SIGN}": True, "+1": True, "\N{THUMBS DOWN SIGN}": False, "-1": False}
# Each of these takes six bytes of an event, and shows nothing.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def fields(value: object) -> Mapping[str, Any]:
    """The value if it is an object, else none."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    """The value if it is a text, else ""; lone surrogates, which cannot be stored, become `?`."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def clean(value: str) -> str:
    """The text without control characters."""
    return _CONTROL.sub("", value.replace("\r\n", "\n"))


def said(content: Mapping[str, Any]) -> str:
    """The text of a message for the agent; "" for notices, which bots write, and for edits."""
    kind, body = text(content.get("msgtype")), text(content.get("body"))
    if fields(content.get("m.relates_to")).get("rel_type") == "m.replace":
        return ""
    if kind in _FILES:
        name = text(content.get("filename")) or body
        caption = body if body != name else ""
        return f"{caption}\n(A file came with this, which cannot be read here: {name})".strip()
    if kind not in ("m.text", "m.emote"):
        return ""
    return _QUOTE.sub("", body, count=1) if answered(content) and body.startswith("> <") else body


def thread_of(content: Mapping[str, Any]) -> str:
    """The id of the message that the thread of a message began with; "" outside threads."""
    relation = fields(content.get("m.relates_to"))
    return text(relation.get("event_id")) if relation.get("rel_type") == "m.thread" else ""


def answered(content: Mapping[str, Any]) -> str:
    """The id of the message that a message answers; "" if none. Each message of a thread names the one before it for
    clients without threads, and answers none by that."""
    relation = fields(content.get("m.relates_to"))
    if relation.get("rel_type") == "m.thread" and relation.get("is_falling_back") is True:
        return ""
    return text(fields(relation.get("m.in_reply_to")).get("event_id"))


def mentions(content: Mapping[str, Any], id: str, names: Iterable[str]) -> bool:
    """Whether a message is for the user: it mentions the id, begins with one of the names, or is a command."""
    listed = fields(content.get("m.mentions")).get("user_ids")
    body = said(content)
    if (isinstance(listed, Sequence) and not isinstance(listed, str) and id in listed) or id in body:
        return True
    return body.startswith("/") or _named(names).match(body) is not None


def without_name(body: str, id: str, names: Iterable[str]) -> str:
    """The text without the name and its colon or comma at the start, so that a command after it is one."""
    match = re.compile(rf"{_named((id, *names)).pattern}(?:[:,]|(?=\s+/))\s*", re.IGNORECASE).match(body)
    return body[match.end() :] if match and match.end() < len(body) else body


def verdict(key: object) -> bool | None:
    """What a reaction says: good, bad, or nothing."""
    return _VERDICTS.get(_VARIATION.sub("", text(key)))


def _named(names: Iterable[str]) -> re.Pattern[str]:
    either = "|".join(re.escape(name.removeprefix("@")) for name in sorted(filter(None, names), key=len, reverse=True))
    return re.compile(rf"\s*@?(?:{either})(?!\w)" if either else r"(?!)", re.IGNORECASE)
