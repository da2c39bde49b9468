"""Who may write to the agent: those whose ids are listed, or were paired. Everyone else is refused."""

import secrets
import time
from collections.abc import Mapping, Sequence

from hermes_lab.errors import ConfigError
from hermes_lab.gateway.platform import Sender
from hermes_lab.gateway.store import GatewayStore

CODE_MINUTES = 10
_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without letters that look like others
_LENGTH = 8
_MOST_WAITING = 20
_TRIES = 5
_WRONG = "wrong_codes"


class Access:
    """Decides by the ids that platforms give; names prove nothing. `listed` are the ids of each platform's `allow`."""

    def __init__(self, store: GatewayStore, listed: Mapping[str, Sequence[str]]) -> None:
        self._store = store
        self._listed = {platform: frozenset(ids) for platform, ids in listed.items()}

    def is_allowed(self, platform: str, sender: str) -> bool:
        """Whether that sender may write. May block."""
        return bool(sender) and (sender in self._listed.get(platform, ()) or self._store.is_allowed(platform, sender))

    def code(self, platform: str, sender: Sender) -> str:
        """A new code for a sender who asks to be let in; "" if there is one already, or too many wait. May block."""
        code = "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
        added = self._store.add_pairing(platform, sender, code, since=since(), most=_MOST_WAITING)
        return code if added else ""


def approve(store: GatewayStore, code: str) -> tuple[str, Sender]:
    """Lets in the sender with that code; returns platform and sender.

    Raises `ConfigError` for a wrong code; after five of them all requests are dropped, so that a code cannot be
    guessed.
    """
    given = code.strip().upper().replace("-", "").encode()
    for platform, sender, name, right in store.pairings(since()):
        if secrets.compare_digest(right.encode(), given):
            store.allow(platform, sender)
            store.set_fact(_WRONG, "0")
            return platform, Sender(sender, name)
    wrong = int(store.fact(_WRONG) or 0) + 1
    if wrong >= _TRIES:
        store.drop_pairings()
        store.set_fact(_WRONG, "0")
        raise ConfigError(
            f"CODE: {_TRIES} wrong codes: all requests were dropped; write to the agent again for a new code"
        )
    store.set_fact(_WRONG, str(wrong))
    raise ConfigError(
        f"CODE: no request has this code, or it is older than {CODE_MINUTES} minutes; `hermes-lab gateway pair` lists "
        "them"
    )


def since() -> float:
    """The time (Unix seconds) before which requests are void."""
    return time.time() - 60 * CODE_MINUTES
