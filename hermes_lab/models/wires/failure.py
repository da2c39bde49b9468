"""Errors in the body of a reply with status 200."""

import re

from hermes_lab.errors import ModelError
from hermes_lab.models.refusals import Failed, Refused
from hermes_lab.models.wires.loose import mapping, text

_OF_THE_REQUEST = re.compile(r"invalid_request|invalid_argument|bad_request|authentication|permission|not_found", re.I)
_PASSING_CODES = frozenset({408, 409, 425, 429})


def failure_of(reply: object) -> ModelError | None:
    """The error in a body that holds no reply, with the endpoint's own message; None if there is none.

    It is `Refused` if its code blames the request, else `Failed`, which is retried.
    """
    body = mapping(reply)
    error = body.get("error") or body.get("detail") or body.get("errors")
    if not error and (text(body.get("message")) or body.get("base_resp")) and not body.get("choices"):
        error = body.get("base_resp") or body
    if isinstance(error, list):
        error = error[0] if error else None
    if not error:
        return None
    details = mapping(error)
    words = next(
        (found for name in ("message", "status_msg", "msg", "detail") if (found := text(details.get(name)))), ""
    )
    if raw := text(mapping(details.get("metadata")).get("raw")):  # OpenRouter: the provider's message
        words = f"{words}: {raw}"
    words = " ".join((words or text(error) or str(error)).split())[:500]
    code = details.get("code", details.get("status", body.get("code")))
    kind = next((each for each in (code, details.get("type"), details.get("status")) if text(each)), "")
    status = int(code) if isinstance(code, int | str) and re.fullmatch(r"[1-5]\d\d", str(code)) else 0
    shown = f"{words} ({kind})" if kind and kind not in words else words
    told = f"the reply is an error: {shown}" + (f" (code {status})" if status else "")
    if (400 <= status < 500 and status not in _PASSING_CODES) or _OF_THE_REQUEST.search(text(kind)):
        return Refused(told, status or 400)
    return Failed(told, status)
