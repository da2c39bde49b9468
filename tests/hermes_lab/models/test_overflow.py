"""A prompt that is too long is told from any other refusal, in whatever words."""

# ruff: noqa: E501 - the endpoints' own words, each on a line

import pytest

from hermes_lab.models.overflow import is_overflow

TOO_LONG = """\
The input (33027 tokens) is longer than the model's context length (32768 tokens).
Context size has been exceeded.
Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens
The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).
This model's maximum prompt length is 131072 but the request contains 537812 tokens.
Input is too long for requested model.
Your request exceeded model token limit: 262144 (requested: 300000)
Range of input length should be [1, 129024]
Your input exceeds the context window of this model. Please adjust your input and try again.
This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion). (context_length_exceeded)
prompt is too long: 210000 tokens > 200000 maximum
request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it
input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again
Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length
`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 1024 `max_new_tokens`
`inputs` must have less than 4096 tokens. Given: 5000
This endpoint's maximum context length is 131072 tokens. However, you requested about 200000 tokens (190000 of text input, 10000 in the output). Please reduce the length of either one, or use the "middle-out" transform
Input validation error: `inputs` must have less than 1024 tokens. Given: 2000
The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens
Requested tokens (5000) exceed context window of 4096
the request exceeds the available context size. try increasing the context size or enable context shift
Please reduce the length of the messages or completion.
Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576, but got a string with length 2000000 instead. (string_above_max_length)
The prompt is too long: 140000, model maximum context length: 131072
Too many input tokens
Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens. Please reduce the length of the messages.
prompt token count of 140000 exceeds the limit of 128000
total message size 5000000 exceeds limit 4194304
tokens in request more than max tokens allowed
Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of 33792 tokens: 32768 tokens from the input messages and 1024 tokens for the completion.
Conversation too long, please start a new conversation
max_model_len 4096 is too small for this prompt
context length exceeded
input is too large to process. increase the physical batch size
The total number of tokens in the prompt exceeds the maximum allowed
'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your request has 1000 input tokens (5000 > 4096 - 1000).
Input length 40000 exceeds maximum allowed length 32768
The input prompt is too long to fit in the model's context
ValidationException: The model returned the following errors: Input is too long for requested model
too many total text bytes: max 100000, got 200000
invalid params, context window exceeds limit (2013)
input characters limit is 1000000
You passed 8193 input tokens and requested 512 output tokens. However, the model's context length is only 8192 tokens, resulting in a maximum input length of 7680 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=8193)
max_tokens must be at least 1, got -51.
输入内容超过模型最大长度限制
Range of input length should be [1, 30720]
""".splitlines()
ANYTHING_ELSE = [
    (
        400,
        "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is "
        "lower than 4096.",
    ),
    (429, "Request too large for gpt-4o in organization on tokens per min (TPM): Limit 30000, Requested 50000."),
    (
        400,
        "max_tokens is too large: 200000. This model supports at most 16384 completion tokens, whereas you provided 200000.",
    ),
    (400, "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64"),
    (413, "Request too large for model `llama` on tokens per minute (TPM): Limit 6000, Requested 6500"),
    (400, "max_tokens: 200000 > 8192, which is the maximum allowed number of output tokens for claude"),
    (400, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
    (400, "temperature must be less than or equal to 2"),
    (400, "`temperature` and `top_p` cannot both be specified for this model. Please use only one."),
    (400, "image exceeds 5 MB maximum"),
    (400, "messages: at least one message is required"),
    (400, "Invalid value for max_tokens: must be greater than 0"),
    (400, "Too many stop sequences, maximum 4"),
    (400, "Unknown model: x"),
    (401, "Incorrect API key provided"),
    (400, "Request timed out, please try again"),
    (400, "messages: text content blocks must be non-empty"),
    (
        400,
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
    ),
    (400, "Missing required parameter: messages"),
    (500, "Internal server error"),
    (400, "top_k should be -1 or at least 1"),
    (400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
    (400, "The reasoning_content in the thinking mode must be passed back to the API."),
    (403, "Your credit balance is too low"),
    (400, "The model does not exist or you have exceeded your quota"),
    (400, "Number of requests exceeds the limit"),
    (400, "logprobs must be less than 20"),
    (400, "n must be at most 1"),
    (500, "CUDA out of memory"),
    (400, "thinking.budget_tokens must be less than max_tokens"),
    (400, "messages.1.content.0.tool_use.id: String should match pattern"),
    (400, "Conversation roles must alternate user/assistant"),
    # Too slow or too busy: the same prompt may be answered on a retry.
    (500, "context deadline exceeded"),
    (500, 'do request failed: Post "http://10.0.0.1:8000/v1/chat/completions": context deadline exceeded'),
    (500, "The request took too long to process"),
    (500, "maximum queue length exceeded for this request"),
    (503, "The model is overloaded; please retry the request with the same context"),
    (500, "failed to recover CUDA context"),
    (500, "the request size exceeds what the server can handle now, please try again later"),
]


@pytest.mark.parametrize("said", TOO_LONG)
def test_a_prompt_that_is_too_long_is_recognised(said: str) -> None:
    assert is_overflow(400, f"http://host/v1: HTTP 400: {said}")


@pytest.mark.parametrize(("status", "said"), ANYTHING_ELSE)
def test_any_other_refusal_is_not_taken_for_it(status: int, said: str) -> None:
    assert not is_overflow(status, f"http://host/v1: HTTP {status}: {said}")


def test_a_code_is_believed_whatever_else_is_said() -> None:
    assert is_overflow(400, "the model is overloaded, please try again later (context_length_exceeded)")


def test_an_endpoint_may_have_words_of_its_own() -> None:
    assert not is_overflow(418, "no room at the inn")
    assert is_overflow(418, "no room at the inn", "ROOM AT")
