"""Which fields apply to which provider, backend or executor, and which fit together. Setting a field that would be
ignored is an error."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from hermes_lab.config.paths import Origin, Problem
from hermes_lab.config.schema import RunConfig, SamplingConfig

_ENDPOINTS = ("openai", "anthropic", "responses")
_SERVED = (*_ENDPOINTS, "vllm")
_CHAT = ("openai", "vllm")
_WRITTEN = frozenset({"messages", "input", "system", "instructions", "model", "tools", "stream", "stream_options"})
"""Request fields written by the client."""
_WRITTEN_BY = {
    "max_completion_tokens": "sampling.max_tokens",
    "max_output_tokens": "sampling.max_tokens",
    "stop_sequences": "sampling.stop",
    "reasoning_effort": "reasoning_effort",
    "logprobs": "token_ids",
    "return_token_ids": "token_ids",
    "tool_choice": "tool_parser",
    "skip_special_tokens": "tool_parser",
}
"""Request fields written by the client if that configuration field is set."""


class Rule(NamedTuple):
    """`fields` apply if the field `selector` has one of `values`. A section stands for all of its fields."""

    selector: str
    values: tuple[str, ...]
    fields: tuple[str, ...]


def _but(values: tuple[str, ...], no: str) -> tuple[str, ...]:
    return tuple(value for value in values if value != no)


_OF_A_MODEL = (
    Rule("provider", _ENDPOINTS, ("base_url", "api_key_env")),
    Rule(
        "provider",
        _SERVED,
        (
            "headers",
            "extra_body",
            "max_retries",
            "timeout",
            "stream",
            "finish_reasons",
            "overflow_pattern",
            "reasoning_effort",
            "sampling.temperature",
            "sampling.top_p",
            "sampling.max_tokens",
        ),
    ),
    Rule("provider", (*_CHAT, "anthropic"), ("sampling.top_k", "sampling.stop")),
    Rule(
        "provider",
        _CHAT,
        (
            "adapter",
            "limit_field",
            "token_ids",
            "tool_parser",
            "sampling.min_p",
            "sampling.seed",
            "sampling.presence_penalty",
            "sampling.frequency_penalty",
        ),
    ),
    Rule("provider", ("anthropic",), ("prompt_cache",)),
    Rule("provider", ("vllm",), ("merge", "server")),
    Rule("provider", ("scripted",), ("options",)),
)
"""Rules for `model`, `auxiliary` and `judge.model`. `name` and `price` always apply."""

RULES = (
    *(
        Rule(f"{section}.{rule.selector}", _but(rule.values, no), tuple(f"{section}.{field}" for field in rule.fields))
        # Only `model` is ever served by us.
        for section, no in (("model", ""), ("auxiliary", "vllm"), ("judge.model", "vllm"))
        for rule in _OF_A_MODEL
    ),
    Rule("agent.tool_format", ("native",), ("model.tool_parser", "auxiliary.tool_parser")),
    Rule("agent.distribution", ("",), ("agent.toolsets",)),
    Rule(
        "agent.program",
        ("",),  # what only the lab's own loop does
        (
            *(
                f"agent.{name}"
                for name in (
                    *("toolsets", "distribution", "disabled_tools", "prompt", "compress_at", "tool_format"),
                    *("max_repeats", "delegation"),
                )
            ),
            "auxiliary",
            "web",
            "mcp",
            "model.tool_parser",
            *(f"skills.{name}" for name in ("max_listed", "update_similarity", "heal_attempts")),
        ),
    ),
    Rule(
        "sandbox.backend",
        ("docker", "apptainer", "modal", "daytona"),
        ("sandbox.image", "sandbox.volumes", "sandbox.gpu"),
    ),
    Rule("sandbox.backend", ("ssh",), ("sandbox.ssh",)),
    Rule("sandbox.backend", ("modal",), ("sandbox.modal",)),
    Rule("sandbox.backend", ("daytona",), ("sandbox.daytona",)),
    Rule("sandbox.backend", ("local",), ("sandbox.allow_local",)),
    Rule("memory.vectors", ("sqlite", "postgres"), ("memory.top_k", "memory.half_life_days", "memory.relevance")),
    Rule("memory.vectors", ("postgres",), ("memory.url_env",)),
    Rule(
        "web.provider",
        ("tavily", "brave", "exa"),
        ("web.api_key_env", "web.base_url", "web.timeout", "web.max_retries"),
    ),
    Rule("run.executor", ("processes",), ("run.processes",)),
    Rule("run.executor", ("ray",), ("run.ray",)),
)


def ignored_fields(config: BaseModel, origins: Mapping[tuple[str, ...], Origin]) -> Iterator[Problem]:
    """The fields that would be ignored, if they were set together with or after their selector.

    Fields at their default, and those set for a provider that a later source replaced, are not errors.
    """
    for rule in RULES:
        selected = _at(config, rule.selector)
        if selected is None or selected.value in rule.values:
            continue
        chosen = origins.get(tuple(rule.selector.split(".")))
        for field, origin in _ignored(config, rule, origins):
            if origin.source >= (chosen.changed if chosen else -1):
                yield Problem(origin.where, field, _explained(rule, field, origin, selected.value, chosen))
    yield from _of_chats(config, origins)
    yield from _useless_cost(config, origins)
    yield from _no_room_for_prompts(config, origins)
    yield from _overwritten(config, origins)


def _of_chats(config: BaseModel, origins: Mapping[tuple[str, ...], Origin]) -> Iterator[Problem]:
    """What only chats have."""
    origin = origins.get(("sandbox", "workspace"))
    if origin and isinstance(config, RunConfig) and config.sandbox.workspace and not config.of_chats:
        message = (
            f"{origin.where}: sandbox.workspace is for chats: every episode of a run needs a workspace of its own; "
            "remove it (a task's own files are in its suite)"
        )
        yield Problem(origin.where, "sandbox.workspace", message)


def _useless_cost(config: BaseModel, origins: Mapping[tuple[str, ...], Origin]) -> Iterator[Problem]:
    """A cost limit has no effect without prices."""
    limit, origin = _at(config, "agent.max_cost"), origins.get(("agent", "max_cost"))
    prices = [price for price in (_at(config, "model.price"), _at(config, "auxiliary.price")) if price]
    if limit and origin and limit.value and all(price.is_default for price in prices):
        message = (
            f"{origin.where}: agent.max_cost has no effect without a price: add -c model.price.prompt=... and "
            "-c model.price.completion=... (cost of a million tokens), or remove agent.max_cost"
        )
        yield Problem(origin.where, "agent.max_cost", message)


def _no_room_for_prompts(config: BaseModel, origins: Mapping[tuple[str, ...], Origin]) -> Iterator[Problem]:
    """vLLM refuses a prompt if it and the reply's limit exceed the context, so every episode would end at once.

    What no source sets, as in the record of a run, is not checked.
    """
    limit, context = "model.sampling.max_tokens", "model.server.max_model_len"
    origin = origins.get(tuple(limit.split("."))) or origins.get(tuple(context.split(".")))
    if not origin or not isinstance(config, RunConfig) or config.model.provider != "vllm":
        return
    tokens, length = config.model.sampling.max_tokens, config.model.server.max_model_len
    if tokens is not None and tokens >= length:
        message = (
            f"{origin.where}: {limit}={tokens} leaves no room for a prompt in the server's context, "
            f"{context}={length}; raise {context}, or lower {limit}"
        )
        yield Problem(origin.where, limit, message)


def _overwritten(config: BaseModel, origins: Mapping[tuple[str, ...], Origin]) -> Iterator[Problem]:
    """Fields of `extra_body` that another configuration field, or the client itself, writes."""
    for section in ("model", "auxiliary", "judge.model"):
        extra = _at(config, f"{section}.extra_body")
        for name in extra.value if extra and isinstance(extra.value, dict) else ():
            field = f"sampling.{name}" if name in SamplingConfig.model_fields else _WRITTEN_BY.get(name)
            own = _at(config, f"{section}.{field}") if field else None
            if name not in _WRITTEN and (own is None or not _is_set(own.value)):
                continue
            path = (*section.split("."), "extra_body", name)
            origin = origins.get(path) or origins.get(path[:-1])
            where, whole = origin.where if origin else section, f"{section}.extra_body.{name}"
            fix = f"set {own.field} instead" if own else "remove it"
            yield Problem(where, whole, f"{where}: {whole} would be ignored: {fix}")


def _is_set(value: Any) -> bool:
    return value is not None and value is not False and value not in ((), "")


class _Value(NamedTuple):
    field: str
    value: Any
    is_default: bool


def _ignored(config: BaseModel, rule: Rule, origins: Mapping[tuple[str, ...], Origin]) -> Iterator[tuple[str, Origin]]:
    """The fields of the rule that a source changed from their default."""
    for path, origin in origins.items():
        name = ".".join(path)
        if any(name == field or name.startswith(f"{field}.") for field in rule.fields):
            found = _at(config, name)
            # For a section or mapping that was only extended, its entries know who set them.
            is_whole = found and found.field == name and isinstance(found.value, BaseModel | dict)
            if found and not found.is_default and not is_whole:
                yield found.field, origin


def _at(config: BaseModel, name: str) -> _Value | None:
    """The value of that field, or of the section containing it; None if its section is null."""
    section, found = config, None
    parts = name.split(".")
    for number, part in enumerate(parts, 1):
        value = getattr(section, part)
        default = type(section).model_fields[part].get_default(call_default_factory=True)
        found = _Value(".".join(parts[:number]), value, value == default)
        if not isinstance(value, BaseModel):
            return found if value is not None or number == len(parts) else None
        section = value
    return found


def _explained(rule: Rule, field: str, origin: Origin, value: str, chosen: Origin | None) -> str:
    where = "the default" if chosen is None else chosen.where
    by = "" if where == origin.where else f" ({where})"
    others = f" (or {', '.join(rule.values[1:])})" if rule.values[1:] else ""
    fix = f"add -c {rule.selector}={rule.values[0]}{others}, or " if rule.values else ""
    return f"{origin.where}: {field} is not used with {rule.selector}={value}{by}; {fix}remove {field}"
