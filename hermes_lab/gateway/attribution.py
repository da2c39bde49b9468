"""Says in groups who wrote a message. The gateway alone does; a text cannot."""

import re

_FORGED = re.compile(r"<(?=\s*/?\s*from\b)", re.IGNORECASE)
_UNSAFE = re.compile(r'[<>"&\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]')
_LONGEST_NAME = 60


def attributed(text: str, id: str, name: str) -> str:
    """The text with its sender, for the model. `id` is a hash; a tag that the text itself has is none any more."""
    shown = " ".join(_UNSAFE.sub(" ", name).split())[:_LONGEST_NAME].strip()
    named = f' name="{shown}"' if shown else ""
    return f'<from id="{id}"{named}>{neutral(text)}</from>'


def neutral(text: str) -> str:
    """The text without tags that say who wrote it."""
    return _FORGED.sub("&lt;", text)
