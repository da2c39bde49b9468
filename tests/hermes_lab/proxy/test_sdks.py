"""The official SDKs against the proxy, with and without streams."""

import anthropic
import openai
import pytest
from served import KEY, Given, said, served

from hermes_lab.types import ToolCall

CALL = ToolCall("call_1", "sh", {"command": "ls é"})
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
FUNCTION = {"type": "function", "function": {"name": "sh", "description": "d", "parameters": SCHEMA}}


def chat(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)


async def test_chat_completions() -> None:
    upstream = Given([said("Look.", CALL)])
    async with served(upstream) as (proxy, url), chat(url) as client:
        asked = {"model": "m", "messages": [{"role": "user", "content": "go"}], "tools": [FUNCTION]}
        reply = await client.chat.completions.create(**asked)  # type: ignore[call-overload]
        choice = reply.choices[0]
        assert (choice.message.content, choice.finish_reason) == ("Look.", "tool_calls")
        assert choice.message.tool_calls[0].function.arguments == '{"command":"ls é"}'
        assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (10, 3)
        chunks = [
            chunk
            async for chunk in await client.chat.completions.create(  # type: ignore[call-overload]
                **asked, stream=True, stream_options={"include_usage": True}
            )
        ]
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "Look."
        assert chunks[-1].usage.total_tokens == 13
        assert [model.id async for model in client.models.list()] == ["m"]
        first, second = (exchange.asked for exchange in proxy.exchanges)
        assert first.messages == second.messages
        assert (first.stream, second.stream) == (False, True)
        assert first.tools == (FUNCTION,)


async def test_messages() -> None:
    upstream = Given([said("Look.", CALL), said("Done.")])
    async with (
        served(upstream) as (_, url),
        anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0) as client,
    ):
        asked = {
            "model": "m",
            "max_tokens": 9,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": "go"}],
            "tools": [{"name": "sh", "description": "d", "input_schema": SCHEMA}],
        }
        reply = await client.messages.create(**asked)  # type: ignore[call-overload]
        assert [block.type for block in reply.content] == ["text", "tool_use"]
        assert (reply.content[1].input, reply.stop_reason) == ({"command": "ls é"}, "tool_use")
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": "a.txt", "is_error": True}
        asked["messages"] = [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [block.model_dump() for block in reply.content]},
            {"role": "user", "content": [result, {"type": "text", "text": "<system-reminder>x</system-reminder>"}]},
        ]
        async with client.messages.stream(**asked) as stream:  # type: ignore[arg-type]
            final = await stream.get_final_message()
        assert (final.content[0].text, final.stop_reason, final.usage.output_tokens) == ("Done.", "end_turn", 3)
        messages = upstream.requests[1].asked.messages
        assert [message.role for message in messages] == ["system", "user", "assistant", "tool", "user"]
        assert (messages[3].results[0].name, messages[3].results[0].ok) == ("sh", False)
        counted = await client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "x" * 4000}])
        assert 900 < counted.input_tokens < 1200


async def test_responses() -> None:
    patch = ToolCall("call_2", "apply_patch", {"input": "*** Begin"})
    upstream = Given([said("Look.", CALL, patch), said("Done.")])
    custom = {"type": "custom", "name": "apply_patch", "description": "d", "format": {"type": "text"}}
    tools = [{"type": "function", **FUNCTION["function"]}, custom, {"type": "web_search"}]  # type: ignore[dict-item]
    async with served(upstream) as (_, url), chat(url) as client:
        reply = await client.responses.create(model="m", instructions="Be brief.", input="go", tools=tools)  # type: ignore[call-overload]
        assert [item.type for item in reply.output] == ["message", "function_call", "custom_tool_call"]
        assert (reply.output_text, reply.output[2].input) == ("Look.", "*** Begin")
        more = [
            {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"},
            *(item.model_dump() for item in reply.output),
            {"type": "function_call_output", "call_id": "call_1", "output": "a.txt"},
            {"type": "custom_tool_call_output", "call_id": "call_2", "output": "patched"},
        ]
        async with client.responses.stream(model="m", input=more, tools=tools) as stream:  # type: ignore[arg-type]
            final = await stream.get_final_response()
        assert (final.output_text, final.usage.total_tokens) == ("Done.", 13)
        user, assistant, *results = upstream.requests[1].asked.messages
        assert (user.content, assistant.content) == ("go", "Look.")
        assert [(call.name, call.arguments) for call in assistant.tool_calls] == [
            ("sh", {"command": "ls é"}),
            ("apply_patch", {"input": "*** Begin"}),
        ]
        assert [(message.content, message.results[0].name) for message in results] == [
            ("a.txt", "sh"),
            ("patched", "apply_patch"),
        ]
        assert [tool["function"]["name"] for tool in upstream.requests[1].asked.tools] == ["sh", "apply_patch"]


async def test_another_key_is_refused() -> None:
    async with served(Given([said("x")])) as (proxy, url):
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="other", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError):
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
        assert proxy.exchanges == []
