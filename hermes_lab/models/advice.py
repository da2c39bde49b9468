"""Advice on which field to change, for refusals caused by the configuration."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from hermes_lab.config.schema import ModelConfig, SamplingConfig

_REFUSED = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|not permitted|not allowed|unexpected|deprecated|only|cannot|can't"
    r"|invalid|extra|forbidden|incompatible|both|must|not have"
)

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def advice(status: int, said: str, body: Mapping[str, Any], config: ModelConfig, base_url: str) -> str:
    """The field to change, in one clause; "" if the refusal is clear by itself."""
    words = said.lower()
    if status == 404 and not (version_of(base_url)) and not re.search(r"\bmodel\b", words.rpartition("http 404:")[2]):
        return f"does model.base_url lack /v1? (model.base_url={base_url}/v1)"
    if status in (401, 403) and config.key_variable:
        return f"the key comes from ${config.key_variable.replace(',', ', $')} (model.api_key_env)"
    if "tool_choice" not in body and re.search(r"enable-auto-tool-choice|tool.?call.?parser", words):
        return (
            "start the server with them, or set model.tool_parser to the model's family (hermes, llama, mistral, ...), "
            "or agent.tool_format=hermes"
        )
    if body.get("tools") and re.search(
        r"(?:not support|n't support|unsupported|no support|no endpoints found that support).{0,40}\btools?\b"
        r"|\btools?\b.{0,60}(?:not support|--jinja)",
        words,
    ):
        return "set agent.tool_format=hermes to write calls as text"
    # xAI spells fields in its own way: presencePenalty.
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", said).lower()
    if status not in (400, 422) or not _REFUSED.search(words):
        return ""
    if any(re.search(rf"(?<![a-z_]){name}(?![a-z_])", words) and name in body for name in _LIMITS):
        if re.search(r"too large|at most|maximum|less than|range|exceed|greater", words):
            return "set a lower model.sampling.max_tokens"
        if config.provider == "openai":
            return "set model.limit_field to the other name of the limit (max_tokens, max_completion_tokens)"
    sampling = [name for name in SamplingConfig.model_fields if name not in (*_LIMITS, *config.extra_body)]
    if sent := [name for name in sampling if name in body and re.search(rf"(?<![a-z_]){name}(?![a-z_])", words)]:
        fields = " or ".join(f"model.sampling.{name}={'[]' if name == 'stop' else 'null'}" for name in sent)
        return f"set {fields} to omit it"
    if config.reasoning_effort and re.search(r"reasoning|effort", words):
        return "set model.reasoning_effort= (empty) to omit it"
    if named := [name for name in config.extra_body if name.lower() in words]:
        return f"{named[0]} comes from model.extra_body: remove it there"
    return ""


def limit_in(body: Mapping[str, Any]) -> int:
    """The most tokens that a request's reply may have; 0 if it sets no limit."""
    return next((body[name] for name in _LIMITS if isinstance(body.get(name), int)), 0)


def version_of(base_url: str) -> str:
    """The part of a URL's path that is an API version, such as `v1`, or another sign that the URL is complete."""
    path = urlsplit(base_url).path
    found = re.search(r"/(v\d+\w*)\b|/openai\b|/api\b|/deployments/", path)
    return found.group() if found else ""
