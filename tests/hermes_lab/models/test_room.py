"""Whether the prompt or the reply's limit is to blame for a refusal, in whatever words."""

# ruff: noqa: E501 - the endpoints' own words, each on a line

import re
from typing import Any

import pytest
import quirks
from fakes.openai_server import FakeOpenAIServer, Reply
from hypothesis import example, given
from hypothesis import strategies as st
from test_overflow import TOO_LONG
from test_requests import client_of

from hermes_lab.errors import ContextFull, NoRoomForReply
from hermes_lab.models.overflow import is_overflow
from hermes_lab.models.room import Room, room_beside
from hermes_lab.types import Message

ASK = [Message("user", "What is 2+2?")]
WORDS = {
    "vLLM, OpenAI, DeepSeek": "This model's maximum context length is {context} tokens. However, you requested {sum} tokens ({prompt} in the messages, {reply} in the completion). Please reduce the length of the messages or completion.",
    "vLLM 0.8": "'max_tokens' or 'max_completion_tokens' is too large: {reply}. This model's maximum context length is {context} tokens and your request has {prompt} input tokens ({reply} > {context} - {prompt}).",
    "vLLM 0.12": "You passed {prompt} input tokens and requested {reply} output tokens. However, the model's context length is only {context} tokens, resulting in a maximum input length of 7 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value={prompt})",
    "SGLang": "Requested token count exceeds the model's maximum context length of {context} tokens. You requested a total of {sum} tokens: {prompt} tokens from the input messages and {reply} tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
    "OpenRouter": "This endpoint's maximum context length is {context} tokens. However, you requested about {sum} tokens ({prompt} of text input, {reply} in the output). Please reduce the length of either one",
    "Anthropic": "input length and `max_tokens` exceed context limit: {prompt} + {reply} > {context}, decrease input length or `max_tokens` and try again",
    "TGI": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {context}. Given: {prompt} `inputs` tokens and {reply} `max_new_tokens`",
}
AT_LEAST = "This model's maximum context length is {context} tokens. However, you requested {reply} output tokens and your prompt contains at least {prompt} input tokens, for a total of at least {sum} tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value={prompt})"


def said(words: str, context: int, prompt: int, reply: int) -> str:
    told = words.format(context=context, prompt=prompt, reply=reply, sum=prompt + reply)
    return f"http://output-tokens:8000/v1: HTTP 400: {told}"


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
@given(st.integers(1, 300_000), st.integers(1, 300_000), st.integers(1, 300_000))
@example(4096, 4096, 1)
@example(4096, 4095, 1)
def test_the_reply_is_to_blame_exactly_if_the_prompt_alone_fits(
    words: str, context: int, prompt: int, more: int
) -> None:
    reply = max(context - prompt, 0) + more
    found = room_beside(reply, line := said(words, context, prompt, reply))
    assert is_overflow(400, line)
    assert found == (Room(context, prompt) if prompt < context else None)


@pytest.mark.parametrize(
    ("reply", "room"), [(4096, Room(4096)), (8192, Room(4096)), (2048, Room(4096)), (2047, None), (0, None)]
)
def test_a_prompt_of_unknown_length_is_to_blame_if_the_reply_takes_less_than_half(
    reply: int, room: Room | None
) -> None:
    assert room_beside(reply, said(AT_LEAST, 4096, max(4096 - reply, 0) + 1, reply)) == room


@pytest.mark.parametrize(
    ("line", "room"),
    [
        ("you requested 4096 output tokens and your prompt contains 9000 characters (more than 8 characters, which is the upper bound for 1 input tokens); maximum context length is 4,096 tokens", Room(4096)),
        ("AiError: The estimated number of input and maximum output tokens (35000) exceeded this model context window limit (5000)", Room(5000)),
        ("maximum context length is 5000 tokens. However, you requested about 5096 tokens (600 of text input, 400 of tool input, 4096 in the output).", Room(5000, 1000)),
    ],
)  # fmt: skip
def test_more_words(line: str, room: Room) -> None:
    assert room_beside(4096, line) == room


@pytest.mark.parametrize("line", [line for line in TOO_LONG if not re.search("completion|output|max_.*tokens", line)])
@pytest.mark.parametrize("reply", [1, 4096, 200_000])
def test_a_refusal_that_counts_no_reply_does_not_blame_it(line: str, reply: int) -> None:
    """llama.cpp names its context, which may be the number that the reply is limited to."""
    assert room_beside(reply, line) is None


@pytest.mark.anyio
@pytest.mark.parametrize("status", [400, 200])
async def test_the_error_names_what_to_change(status: int) -> None:
    words = said(AT_LEAST, 4096, 1, 4096).rpartition(": ")[2]
    refusal = Reply(status=status, body=quirks.error(words, code=400))
    async with (
        FakeOpenAIServer([refusal]) as server,
        client_of(server.base_url, sampling={"max_tokens": 4096}) as client,
    ):
        with pytest.raises(NoRoomForReply) as caught:
            await client.generate(ASK, ())
    assert str(caught.value).startswith(
        "a reply of up to 4096 tokens leaves 0 of the model's context of 4096 for the prompt: set a lower "
        "model.sampling.max_tokens, or give the server a larger context (model.server.max_model_len, if the lab serves "
        "the model); "
    )
    assert words in str(caught.value)


@pytest.mark.anyio
@pytest.mark.parametrize("sampling", [{"max_tokens": 100}, {"max_tokens": None}])
async def test_a_prompt_that_is_too_long_is_still_to_blame_itself(sampling: dict[str, Any]) -> None:
    refusal = Reply(status=400, body=quirks.error(said(AT_LEAST, 4096, 3997, 100)))
    async with FakeOpenAIServer([refusal]) as server, client_of(server.base_url, sampling=sampling) as client:
        with pytest.raises(ContextFull) as caught:
            await client.generate(ASK, ())
    assert type(caught.value) is ContextFull
