"""What each server is known to send, by quirk: the cells of the table in docs/models.md. Wordings are the servers' own."""

# ruff: noqa: E501 - the endpoints' own words, each on a line

from typing import Any

SERVERS = (
    *(
        "OpenAI",
        "Azure",
        "Anthropic",
        "Gemini",
        "Bedrock",
        "Mistral",
        "DeepSeek",
        "Kimi",
        "xAI",
        "Together",
        "OpenRouter",
    ),
    *("vLLM", "SGLang", "llama.cpp", "Ollama", "LM Studio", "TGI"),
)


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


TOO_LONG: dict[str, tuple[int, Any]] = {
    "OpenAI": (
        400,
        error("Your input exceeds the context window of this model. Please adjust your input and try again."),
    ),
    "Azure": (
        400,
        error(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
    ),
    "Anthropic": (
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"},
        },
    ),
    "Gemini": (
        400,
        [
            error(
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).",
                code=400,
                status="INVALID_ARGUMENT",
            )
        ],
    ),
    "Bedrock": (400, {"message": "Input is too long for requested model."}),
    "Mistral": (
        400,
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            "type": "invalid_request_error",
        },
    ),
    "DeepSeek": (
        400,
        error(
            "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens (130000 in the messages, 10000 in the completion). Please reduce the length of the messages or completion."
        ),
    ),
    "Kimi": (
        400,
        error(
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)",
            type="invalid_request_error",
        ),
    ),
    "xAI": (
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        },
    ),
    "Together": (
        422,
        error(
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000 `inputs` tokens and 512 `max_new_tokens`"
        ),
    ),
    "OpenRouter": (
        200,
        error(
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 200000 tokens (190000 of text input, 10000 in the output). Please reduce the length of either one",
            code=400,
        ),
    ),
    "vLLM": (
        400,
        error(
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.",
            type="BadRequestError",
            code=400,
        ),
    ),
    "SGLang": (
        400,
        {
            "object": "error",
            "message": "The input (33027 tokens) is longer than the model's context length (32768 tokens).",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    "llama.cpp": (500, error("Context size has been exceeded.", code=500, type="server_error")),
    "Ollama": (400, error("the input length exceeds the context length")),
    "LM Studio": (
        400,
        {
            "error": "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."
        },
    ),
    "TGI": (
        422,
        {
            "error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000",
            "error_type": "validation",
        },
    ),
}
LIMIT_NAME = {
    "OpenAI": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    "Azure": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
}
SAMPLING = {
    "OpenAI": (
        "Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) value is supported.",
        "temperature",
    ),
    "Azure": (
        "Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) value is supported.",
        "temperature",
    ),
    "Anthropic": (
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        "temperature",
    ),
    "Bedrock": (
        "The model returned the following errors: `temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        "top_p",
    ),
    "Kimi": ("invalid temperature: only 1 is allowed for this model", "temperature"),
}
REASONING: dict[str, dict[str, Any]] = {
    "Gemini": {"content": "<thought>hm</thought>4"},
    "Mistral": {
        "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "4"}]
    },
    "DeepSeek": {"content": "4", "reasoning_content": "hm"},
    "Kimi": {"content": "4", "reasoning_content": "hm"},
    "xAI": {"content": "4", "reasoning_content": "hm", "refusal": None},
    "Together": {"content": "<think>\nhm\n</think>\n\n4"},
    "OpenRouter": {
        "content": "4",
        "reasoning": "hm",
        "reasoning_details": [{"type": "reasoning.text", "text": "hm", "format": "unknown", "index": 0}],
    },
    "vLLM": {"content": "4", "reasoning": "hm", "reasoning_content": "hm"},
    "SGLang": {"content": "4", "reasoning_content": "hm"},
    "llama.cpp": {"content": "4", "reasoning_content": "hm"},
    "Ollama": {"content": "4", "reasoning": "hm"},
    "LM Studio": {"content": "<think>hm</think>\n4"},
    "TGI": {"content": "hm</think>4"},
}
WANTED_BACK: dict[str, dict[str, Any]] = {
    "DeepSeek": {"reasoning_content": "hm"},
    "Kimi": {"reasoning_content": "hm"},
    "OpenRouter": {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 0}]},
}
NOT_WANTED_BACK = {
    "Mistral": (
        "reasoning_content",
        [
            {
                "type": "extra_forbidden",
                "loc": ["body", "messages", 1, "assistant", "reasoning_content"],
                "msg": "Extra inputs are not permitted",
            }
        ],
    ),
}
FINISH: dict[str, dict[str, str]] = {
    "OpenAI": {
        "stop": "sound",
        "tool_calls": "sound",
        "function_call": "sound",
        "length": "length",
        "content_filter": "content_filter",
    },
    "Azure": {"stop": "sound", "length": "length", "content_filter": "content_filter"},
    "Anthropic": {
        "end_turn": "sound",
        "stop_sequence": "sound",
        "tool_use": "sound",
        "max_tokens": "length",
        "refusal": "refusal",
        "model_context_window_exceeded": "length",
    },
    "Gemini": {
        "stop": "sound",
        "MAX_TOKENS": "length",
        "SAFETY": "content_filter",
        "RECITATION": "content_filter",
        "MALFORMED_FUNCTION_CALL": "malformed_call",
        "OTHER": "error",
    },
    "Bedrock": {
        "end_turn": "sound",
        "tool_use": "sound",
        "max_tokens": "length",
        "guardrail_intervened": "content_filter",
        "content_filtered": "content_filter",
    },
    "Mistral": {"stop": "sound", "tool_calls": "sound", "length": "length", "model_length": "length", "error": "error"},
    "DeepSeek": {
        "stop": "sound",
        "tool_calls": "sound",
        "length": "length",
        "content_filter": "content_filter",
        "insufficient_system_resource": "error",
    },
    "Kimi": {"stop": "sound", "tool_calls": "sound", "length": "length"},
    "Together": {"eos": "sound", "stop": "sound", "tool_calls": "sound", "length": "length"},
    "OpenRouter": {
        "stop": "sound",
        "tool_calls": "sound",
        "length": "length",
        "content_filter": "content_filter",
        "error": "error",
    },
    "vLLM": {
        "stop": "sound",
        "tool_calls": "sound",
        "length": "length",
        "abort": "error",
        "error": "error",
        "repetition": "length",
    },
    "SGLang": {"stop": "sound", "tool_calls": "sound", "length": "length", "abort": "error"},
    "llama.cpp": {"stop": "sound", "tool_calls": "sound", "length": "length"},
    "Ollama": {"stop": "sound", "tool_calls": "sound", "length": "length", "load": "error"},
    "TGI": {"eos_token": "sound", "stop_sequence": "sound", "stop": "sound", "length": "length"},
}
PASSING: dict[str, tuple[int, Any]] = {
    "OpenAI": (503, error("The server is currently overloaded with other requests.", type="server_error")),
    "Anthropic": (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    "Gemini": (503, [error("The model is overloaded. Please try again later.", code=503, status="UNAVAILABLE")]),
    "DeepSeek": (503, error("Server is overloaded")),
    "Kimi": (429, error("The engine is currently overloaded, please try again later", type="engine_overloaded_error")),
    "OpenRouter": (200, error("Provider returned error", code=502, metadata={"provider_name": "X"})),
    "Together": (524, "<html>error code: 524</html>"),
}
LISTS: dict[str, tuple[str, Any]] = {
    "Azure": ("my-deployment", None),
    "Gemini": ("gemini-2.5-flash", {"object": "list", "data": [{"id": "models/gemini-2.5-flash", "object": "model"}]}),
    "Together": ("meta/x", [{"id": "meta/x", "object": "model"}, {"id": "other"}]),
    "OpenRouter": ("meta/x:floor", {"data": [{"id": "meta/x", "canonical_slug": "meta/x-2025"}]}),
    "llama.cpp": (
        "x.gguf",
        {
            "models": [{"name": "/models/x.gguf"}],
            "object": "list",
            "data": [{"id": "/models/x.gguf", "owned_by": "llamacpp"}],
        },
    ),
    "Ollama": ("qwen3", {"object": "list", "data": [{"id": "qwen3:latest", "owned_by": "library"}]}),
    "LM Studio": ("qwen3-4b", {"object": "list", "data": [{"id": "qwen/qwen3-4b", "owned_by": "organization_owner"}]}),
    "Anthropic": ("claude-x", {"data": [{"type": "model", "id": "claude-y", "display_name": "Y"}], "has_more": True}),
}
FILTERED_PROMPTS: dict[str, object] = {
    "Azure": {
        "error": {
            "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
            "type": None,
            "param": "prompt",
            "code": "content_filter",
            "status": 400,
            "innererror": {"code": "ResponsibleAIPolicyViolation"},
        }
    },
    "DashScope": {
        "error": {
            "message": "Input data may contain inappropriate content.",
            "type": "data_inspection_failed",
            "code": "data_inspection_failed",
        }
    },
}

USAGE: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "OpenAI": (
        {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 4}},
        (9, 3, 4),
    ),
    "DeepSeek": (
        {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "total_tokens": 12,
            "prompt_cache_hit_tokens": 4,
            "prompt_cache_miss_tokens": 5,
        },
        (9, 3, 4),
    ),
    "Kimi": ({"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "cached_tokens": 4}, (9, 3, 4)),
    "xAI": (
        {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "total_tokens": 17,
            "completion_tokens_details": {"reasoning_tokens": 5},
        },
        (9, 8, 0),
    ),
    "Gemini": ({"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 17}, (9, 8, 0)),
    "Mistral": (
        {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "prompt_audio_seconds": {}},
        (9, 3, 0),
    ),
}
_FUNCTION = {"name": "add", "arguments": '{"by": 1}'}
STREAMS: dict[str, bytes] = {
    "OpenAI": b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"4"},"finish_reason":null}],"usage":null}\n\ndata: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}\n\ndata: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}\n\ndata: [DONE]\n\n',
    "OpenRouter": b': OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\ndata: {"choices":[{"index":0,"delta":{"role":"assistant","content":"4"},"finish_reason":null}]}\n\ndata: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    "vLLM": b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"prompt_token_ids":null}\n\ndata: {"choices":[{"index":0,"delta":{"content":"4"},"finish_reason":"stop","stop_reason":null}]}\n\ndata: [DONE]\n\n',
    "TGI": b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"4"},"logprobs":null,"finish_reason":"stop"}]}\r\n\r\ndata: [DONE]\r\n\r\n',
}
STREAMED_CALLS: dict[str, list[dict[str, Any]]] = {
    "Gemini": [{"id": "a", "type": "function", "function": _FUNCTION}],
    "Ollama": [{"id": "a", "index": 0, "type": "function", "function": _FUNCTION}],
    "Mistral": [{"id": "a", "index": 0, "function": _FUNCTION}],
    "OpenAI": [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "add", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"by"'}},
        {"index": 0, "function": {"arguments": ": 1}"}},
    ],
}
NO_TOOLS = {
    "vLLM": (
        400,
        error(
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
            type="BadRequestError",
        ),
        "model.tool_parser",
    ),
    "Ollama": (
        400,
        error("registry.ollama.ai/library/gemma:2b does not support tools", type="api_error"),
        "agent.tool_format=hermes",
    ),
}
IN_THE_TEXT = {
    "vLLM": ('<tool_call>\n{"name": "add", "arguments": {"by": 1}}\n</tool_call>', "hermes"),
    "llama.cpp": ('<|python_tag|>{"name": "add", "parameters": {"by": 1}}', "llama"),
    "LM Studio": ('[TOOL_CALLS][{"name": "add", "arguments": {"by": 1}}]', "mistral"),
    "SGLang": ("<|channel|>commentary to=functions.add<|message|>{}<|call|>", "other"),
}
MISSING_V1: dict[str, tuple[int, str]] = {
    "vLLM": (404, '{"detail": "Not Found"}'),
    "SGLang": (404, '{"detail": "Not Found"}'),
    "Ollama": (404, "404 page not found"),
    "LM Studio": (200, '{"error": "Unexpected endpoint or method. (GET /models)"}'),
}

TABLE: dict[str, tuple[str, ...]] = {
    "a prompt that is too long is `context_full`": tuple(TOO_LONG),
    "`max_completion_tokens` is learned": tuple(LIMIT_NAME),
    "a rejected sampling field is named": tuple(SAMPLING),
    "reasoning is not part of the answer": (*REASONING, "Anthropic", "OpenAI"),
    "fields expected back with a call are returned": (*WANTED_BACK, "Gemini", "Anthropic", "OpenAI"),
    "a field that is rejected on return is left out": tuple(NOT_WANTED_BACK),
    "finish reasons": tuple(FINISH),
    "transient failures are retried": tuple(PASSING),
    "an unclear model list does not end the run": tuple(LISTS),
    "tokens, cached and of reasoning": (*USAGE, "Anthropic"),
    "streams": tuple(STREAMS),
    "calls in a stream": tuple(STREAMED_CALLS),
    "no empty text next to calls": ("Bedrock",),
    "a query in the address, `api-key`": ("Azure",),
    "a missing `/v1` is reported": tuple(MISSING_V1),
    "a server without tools is reported": tuple(NO_TOOLS),
    "a call left in the text is `unparsed`": tuple(IN_THE_TEXT),
}
"""The rows of the table, with the servers whose cell is filled. Those of Anthropic and OpenAI that are not in the
dictionaries above are the native formats: test_wire_anthropic.py and test_wire_responses.py."""
