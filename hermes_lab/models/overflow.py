"""Recognises refusals of a prompt that exceeds the model's context.

Endpoints share no error code for it, and wordings vary too much for a list. A refusal is recognised by a combination of
words: a subject (context, prompt, input, tokens...) and an excess (exceeds, too long, maximum...), unless it is about
something else.
"""

import re

_CODES = r"context_length_exceeded|context_window_exceeded|string_above_max_length|exceed_context_size|prompt_too_long"
_CODE = re.compile(_CODES)
_SURE = re.compile(
    rf"{_CODES}"
    r"|maximum context length|context (?:length|size|window)\b.{0,80}\b(?:exceed|overflow|too|larger|longer|limit)"
    r"|\b(?:exceed\w*|over(?:flow\w*)?|longer than|larger than|beyond|past)\b.{0,80}\bcontext\b"
    r"|context the overflows|too large to process"
    r"|longer than the maximum model length|\binputs`? tokens \+|\bmax_model_len\b.{0,40}too small"
    r"|context\b.{0,40}\boverflow"
    r"|context (?:length|size|window) (?:is|of) only|maximum input length of|\byou passed \d+ input"
    r"|max_tokens must be at least 1, got -\d"
    r"|超(?:过|出|长).{0,20}(?:长度|上下文|token)|(?:长度|上下文|token).{0,12}超(?:过|出|长)"
)
_THING = re.compile(
    r"\b(?:prompts?|inputs?|contexts?|messages?|conversations?|requests?|sequence|history|text|tokens?|characters|bytes)\b"
    r"|(?:prompt|input|context|messages?)[_ ]|token (?:count|limit)"
)
_EXCESS = re.compile(
    r"\btoo (?:long|large|many|big)\b|\bexceed\w*|\blonger than\b|\blarger than\b|\bgreater than\b|\bmore than\b"
    r"|\bmaximum\b.{0,60}\b(?:length|tokens?|context|input|prompt|size)|\bmax_(?:model_len|seq_len|input\w*|prompt\w*)\b"
    r"|\b(?:not|n't|cannot) fit\b|\bover(?:flow\w*| the limit)\b|\bout of range\b|\brange of\b.{0,40}\bshould be\b"
    r"|\b(?:must|should|has to) (?:be|have)\b.{0,40}(?:<=?|less|fewer|at most|no more|shorter|smaller|under)"
    r"|\b(?:less|fewer|shorter|smaller) than\b|\breduce\b.{0,60}\b(?:length|size|prompt|messages|input)"
    r"|\blimit (?:of|is)\b"
    r"|\btruncate\b|\babove the\b"
)
_LENGTH = re.compile(
    r"\btokens?\b|\blength\b|\bsize\b|\bcharacters\b|\bbytes\b|\btoo large\b|\bwindow\b"
    r"|\b(?:prompts?|inputs?|contexts?|messages?|conversation|requests?|sequence|history|text)\b`?"
    r"(?: (?:is|are|was|were))? too long\b"
)
_BUSY = re.compile(
    r"\bdeadline\b|\btime[ -]?outs?\b|\btimed[ -]out\b|\b(?:took|taking|takes?) too long\b|\boverload\w*|\bqueued?\b"
    r"|\btry again (?:later|in\b|shortly|soon|after)|\bplease (?:re)?try again\b(?! (?:with|using))"
)
"""Matches what a server says that is too slow or too busy, whatever the prompt."""
_OTHER = re.compile(
    # Rates and quotas.
    r"\brate.?limit|\bquota\b|per (?:minute|day|hour|second)|\b[tr]pm\b|\btpd\b|too many requests|concurren"
    r"|\bbilling\b|credit"
    # The completion's own limit.
    r"|maximum tokens (?:you requested|value)"
    r"|(?:at most|maximum of|up to|limit (?:of|is)) \d[\d,]* (?:completion|output)|completion tokens|output tokens"
    r"|max_(?:completion_|output_|new_)?tokens['\"`:]*\s.{0,30}"
    r"(?:too large|must be|should be|less than|greater than|exceed|supports?)"
    # Other fields, and other kinds of input.
    r"|\btools?\b|\bfunctions?\b|\bimages?\b|\bstop\b|\bmetadata\b|\blogprobs?\b|\bfile\b|\btemperature\b|\btop_p\b"
    r"|\btool_call_id\b|\bname\b.{0,20}too long|\buser\b.{0,10}too long|\bbatch size\b|\bmodel name\b|\bapi.?key\b"
)
_STATUSES = frozenset({400, 413, 414, 422, 500})
_NEVER = frozenset({401, 402, 403, 404, 408, 429})
_URL = re.compile(r"https?://\S+")


def is_overflow(status: int, said: str, pattern: str = "") -> bool:
    """Whether a refusal says that the prompt is too long. `pattern` is this endpoint's own wording
    (`model.overflow_pattern`)."""
    if pattern and re.search(pattern, said, re.IGNORECASE):
        return True
    words = " ".join(_URL.sub(" ", said.lower()).split())
    if _BUSY.search(words) and not _CODE.search(words):
        return False
    if _SURE.search(words):
        return status >= 400 and status not in _NEVER and not _RATES.search(words)
    if status not in _STATUSES:
        return False
    if _OTHER.search(words):
        return False
    return bool(_THING.search(words) and _EXCESS.search(words) and _LENGTH.search(words))


_RATES = re.compile(r"\brate.?limit|per (?:minute|day|hour|second)|\btpm\b|too many requests")
