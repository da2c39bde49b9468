"""Reads from the refusal of a prompt whether a lower limit of the reply would have made room for it."""

import re
from typing import NamedTuple

_URL = re.compile(r"https?://\S+")
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}\b)")
_COUNTS_REPLY = re.compile(r"completion|\boutput\b|in the output|max_\w*tokens")
"""Matches refusals that count the reply, too. llama.cpp, for one, counts the prompt alone."""
_SUM = re.compile(r"(?P<prompt>\d+) \+ \d+ > (?P<context>\d+)")
"""Anthropic: `190000 + 20000 > 200000`."""
_CONTEXT = re.compile(r"<= (\d+)|\bcontext (?:length|size|window|limit)\b[^\d<]{0,30}(\d+)")
_PROMPT = re.compile(
    r"(?P<bound>at least |bound for )?\b(?P<tokens>\d+)(?: tokens)?"
    r" (?:in the (?:messages|prompt)|of \w+ input|from the input|`?inputs?`? tokens)"
)
"""`at least`: vLLM stops counting at the first token that does not fit."""


class Room(NamedTuple):
    """The tokens of a context, and those of the prompt in it; 0 where the refusal does not say."""

    context: int
    prompt: int = 0


def room_beside(reply: int, said: str) -> Room | None:
    """The room that a lower limit would have made for the refused prompt, if the limit of `reply` tokens is to blame.

    It is if the prompt alone fits the context; where its length is not known, if the reply takes half of the context or
    more. None if it is not, or if the refusal `said` does not give the context.
    """
    words = _GROUPED.sub("", _URL.sub(" ", said.lower()))
    if not _COUNTS_REPLY.search(words):
        return None
    if found := _SUM.search(words):
        context, prompt = int(found["context"]), int(found["prompt"])
    elif found := _CONTEXT.search(words):
        context, prompt = int(found[1] or found[2]), _prompt_in(words)
    else:
        return None
    is_to_blame = prompt < context <= prompt + reply if prompt else 2 * reply >= context
    return Room(context, prompt) if is_to_blame else None


def _prompt_in(words: str) -> int:
    """The tokens of the prompt: the sum of its parts; 0 if they are not known exactly."""
    parts = list(_PROMPT.finditer(words))
    return 0 if any(part["bound"] for part in parts) else sum(int(part["tokens"]) for part in parts)
