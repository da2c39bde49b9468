"""Joins token sequences as returned by the sampler; text is never re-tokenised."""

from hermes_lab.types import Generation, TokenBranch


class TokenTrace:
    """Joins the replies of one conversation into branches.

    A prompt that extends all tokens so far continues the branch, and its new tokens (template, tool output) are masked.
    Any other prompt, for example from a template that rewrites earlier turns, starts a new branch.
    """

    def __init__(self) -> None:
        self._done: list[TokenBranch] = []
        self._ids: list[int] = []
        self._mask: list[int] = []
        self._logprobs: list[float] = []

    def add(self, reply: Generation) -> None:
        """Adds one reply. Replies without token ids are ignored."""
        if not reply.token_ids:
            return
        prompt = list(reply.prompt_token_ids)
        if prompt[: len(self._ids)] != self._ids:
            self._done.append(self._branch())
            self._ids, self._mask, self._logprobs = [], [], []
        new = prompt[len(self._ids) :]
        self._ids += new
        self._mask += [0] * len(new)
        self._logprobs += [0.0] * len(new)
        self._ids += reply.token_ids
        self._mask += [1] * len(reply.token_ids)
        self._logprobs += reply.logprobs

    def branches(self) -> tuple[TokenBranch, ...]:
        """All branches so far, in order."""
        return (*self._done, self._branch()) if self._ids else tuple(self._done)

    def _branch(self) -> TokenBranch:
        return TokenBranch(tuple(self._ids), tuple(self._mask), tuple(self._logprobs))
