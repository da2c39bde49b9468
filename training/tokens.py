"""Converts conversations to token ids and labels, so that trainers never tokenise."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from hermes_lab.errors import ConfigError
from hermes_lab.models.reasoning import separate_reasoning
from hermes_lab.models.wires.chat import wire
from hermes_lab.training.select import TrainingConversation
from hermes_lab.types import TokenBranch

IGNORED = -100
"""The label of a token without a loss."""


class Row(NamedTuple):
    """One sequence of T tokens; labels are token ids or `IGNORED`."""

    input_ids: list[int]
    labels: list[int]


class Tokenized(NamedTuple):
    """The rows, and refused conversations by reason.

    `split` counts the conversations in several rows because the chat template rewrites earlier replies.
    """

    rows: list[Row]
    refused: dict[str, int]
    split: int = 0


class RefusedError(Exception):
    """A conversation cannot be tokenised exactly. The message is the reason."""


def tokenize(conversations: Sequence[TrainingConversation], tokenizer: Any, max_tokens: int) -> Tokenized:
    """Rows of at most `max_tokens`; a conversation with a longer row is refused, never truncated.

    `tokenizer` is a transformers tokenizer with a chat template.
    """
    rows: list[Row] = []
    refused: Counter[str] = Counter()
    split = 0
    for conversation in conversations:
        try:
            made = list(rows_of(conversation, tokenizer))
        except RefusedError as refusal:
            refused[str(refusal)] += 1
            continue
        if any(len(row.input_ids) > max_tokens for row in made):
            refused[f"longer than {max_tokens} tokens"] += 1
            continue
        rows += made
        split += len(made) > 1 and not conversation.branches
    return Tokenized(rows, dict(sorted(refused.items())), split)


def rows_of(conversation: TrainingConversation, tokenizer: Any) -> Iterator[Row]:
    """The rows of one conversation. Raises `RefusedError` if its exact tokens are unknown."""
    if conversation.branches:
        yield from _sampled_rows(conversation)
    else:
        yield from _rendered_rows(conversation, tokenizer)


def _sampled_rows(conversation: TrainingConversation) -> Iterator[Row]:
    """One row per branch of the sampler's token ids. Each run of sampled tokens is one reply; template tokens separate
    them."""
    replies = [list(_replies(branch)) for branch in conversation.branches]
    if sum(map(len, replies)) != len(conversation.sampled):
        raise RefusedError("token ids do not match the replies")
    turns = iter(conversation.sampled)
    for branch, spans in zip(conversation.branches, replies, strict=True):
        labels = [IGNORED] * len(branch.token_ids)
        for start, end in spans:
            if next(turns) in conversation.trained:
                labels[start:end] = branch.token_ids[start:end]
        yield from _if_trained(Row(list(branch.token_ids), labels))


def _replies(branch: TokenBranch) -> Iterator[tuple[int, int]]:
    """Half-open ranges in which the mask is 1."""
    at = 0
    for sampled, run in groupby(branch.mask):
        end = at + len(list(run))
        if sampled:
            yield at, end
        at = end


def _rendered_rows(conversation: TrainingConversation, tokenizer: Any) -> Iterator[Row]:
    """Renders text with the chat template, splits it where a sampler would start and stop, and tokenises each part.

    The loss is on a reply's text and its end-of-turn token. Messages after the last reply are left out. Where the
    prompt of a reply does not continue the row, because the template shows earlier replies differently by then, a new
    row begins with that prompt, in which the earlier replies have no loss.
    """
    render = _renderer(conversation, tokenizer)
    row, done = Row([], []), ""
    for index, message in enumerate(conversation.messages):
        if message.role != "assistant":
            continue
        prompt, whole = render(index, True), render(index + 1, False)
        if not whole.startswith(prompt):
            raise RefusedError("rewritten by the chat template")
        end = whole.rfind(tokenizer.eos_token, len(prompt)) + len(tokenizer.eos_token)
        if end <= len(prompt):
            raise ConfigError(
                f"lock.tokenizer: its chat template does not end turns with its eos_token {tokenizer.eos_token!r}"
            )
        if not prompt.startswith(done):
            yield from _if_trained(row)
            row, done = Row([], []), ""
        before = tokenizer.encode(prompt[len(done) :], add_special_tokens=False)
        reply = tokenizer.encode(whole[len(prompt) : end], add_special_tokens=False)
        row.input_ids.extend(before + reply)
        row.labels.extend([IGNORED] * len(before))
        row.labels.extend(reply if index in conversation.trained else [IGNORED] * len(reply))
        done = whole[:end]
    yield from _if_trained(row)


def _if_trained(row: Row) -> Iterator[Row]:
    if any(label != IGNORED for label in row.labels):
        yield row


def _renderer(conversation: TrainingConversation, tokenizer: Any) -> Callable[[int, bool], str]:
    """Renders the first n messages."""
    messages = wire(conversation.messages, conversation.tool_format)
    native = conversation.tool_format == "native"
    if native:
        _unpack(conversation, messages)
    tools = list(conversation.tools) if native else None

    def render(count: int, generate: bool) -> str:
        text = tokenizer.apply_chat_template(
            messages[:count], tools=tools, tokenize=False, add_generation_prompt=generate
        )
        return str(text)

    return render


def _unpack(conversation: TrainingConversation, messages: Sequence[dict[str, Any]]) -> None:
    """Parses call arguments: templates take objects, servers send text."""
    for message in conversation.messages:
        if separate_reasoning(message.content, message.reasoning) or any(call.error for call in message.tool_calls):
            raise RefusedError("native turns whose text is not known without token ids")
    for sent in messages:
        for call in sent.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
