"""What Slack's errors mean."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hermes_lab.gateway.platform import PlatformError, Refused, TryLater, Undeliverable, Unsure

_REFUSED = {
    "account_inactive",
    "ekm_access_denied",
    "invalid_auth",
    "missing_scope",
    "not_allowed_token_type",
    "not_authed",
    "org_login_required",
    "team_access_not_granted",
    "token_expired",
    "token_revoked",
    "two_factor_setup_required",
}
_LIMITED = {"ratelimited", "rate_limited"}
_FAILED = {"accesslimited", "request_timeout", "service_unavailable", "team_added_to_org"}
_DOUBTFUL = {"fatal_error", "internal_error"}  # "some aspect of the operation" may have succeeded
_WAIT_SECONDS, _LONGEST_SECONDS = 30.0, 3600.0
_CODE = re.compile(r"[a-z0-9_]{1,80}")


@contextmanager
def failures(variable: str, *, sending: bool = False) -> Iterator[None]:
    """Raises the errors of a call as those of a platform; none contains a token or a text.

    `variable` is that of the token. `sending`: the call sends a message, so that no answer means `Unsure`, and a
    refusal `Undeliverable`.
    """
    import aiohttp
    from slack_sdk.errors import SlackApiError

    doubt = Unsure if sending else PlatformError
    try:
        yield
    except SlackApiError as error:
        raise _meaning(error.response, variable, sending) from None
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise PlatformError(f"Slack cannot be reached ({type(error).__name__})") from None
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise doubt(f"no answer from Slack ({type(error).__name__})") from None
    except AttributeError:  # slack_sdk takes a status of 200 with a text for an object
        raise doubt("Slack's answer is no JSON") from None


def _meaning(response: Any, variable: str, sending: bool) -> Exception:
    """`response` is slack_sdk's, or aiohttp's if the answer is no JSON."""
    doubt = Unsure if sending else PlatformError
    status = getattr(response, "status_code", None) or getattr(response, "status", 0)
    data = getattr(response, "data", None)
    found = str(data.get("error", "")) if isinstance(data, Mapping) else ""
    code = found if _CODE.fullmatch(found) else ""
    if status == 429 or code in _LIMITED:
        return TryLater(_seconds(response.headers.get("Retry-After", "")))
    if not code or code in _DOUBTFUL:
        return doubt(f"Slack fails: {code or f'HTTP status {status}'}")
    if code == "missing_scope":
        needed = str(data.get("needed", "")) if isinstance(data, Mapping) else ""
        scope = f" {needed}" if re.fullmatch(r"[a-z.:,]{1,80}", needed) else ""
        return Refused(f"the token in {variable} lacks a scope{scope}: add it to the app, and install the app again")
    if code in _REFUSED:
        return Refused(f"Slack refuses the token in {variable}: {code}")
    if sending and code not in _FAILED:
        return Undeliverable(f"Slack refuses: {code}")
    return PlatformError(f"Slack fails: {code}")


def _seconds(written: str) -> float:
    return min(float(written), _LONGEST_SECONDS) if re.fullmatch(r"\d{1,9}", written) else _WAIT_SECONDS
