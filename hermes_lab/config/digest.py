"""The digest of a configuration: which fields affect results.

To keep the digests of old runs, a field that is added to the schema needs an entry in `FIELDS_ADDED_LATER`.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from hermes_lab.config.schema import RewardConfig, RunConfig

EXCLUDED_SECTIONS = ("budget", "auxiliary", "judge", "tracking")
"""Sections left out as a whole; an auxiliary model and a judge that are set are added without their connection."""
CONNECTION_FIELDS = ("base_url", "api_key_env", "timeout", "max_retries", "limit_field", "stream")
"""How a model or the search service is reached and retried."""
MCP_CONNECTION_FIELDS = ("env", "url", "headers", "installed", "startup_seconds")
"""How an MCP server is reached or started."""
FIELDS_ADDED_LATER: Mapping[str, Mapping[str, Any]] = {
    "model": {"headers": {}, "extra_body": {}, "finish_reasons": [], "overflow_pattern": "", "prompt_cache": True},
    "sampling": {**dict.fromkeys(("top_k", "min_p", "seed", "presence_penalty", "frequency_penalty")), "stop": []},
    "price": {"cached": None, "cache_write": None},
    "agent": {"max_repeats": None, "program": "", "review": "auto", "settings": {}, "carry_state": False},
    "learning": {"stop": {"when": "never"}},
    "skills": {"inline_shell": "isolated", "proposals": False},
    "env": {"knowledge": "none"},
    "sandbox": {
        "workspace": "",
        "volumes": [],
        "gpu": "",
        "ssh": {"isolation": "bubblewrap"},
        "daytona": {"snapshot": ""},
    },
}
"""Fields added since digests were introduced, with the value that gives the old behaviour."""


def config_digest(config: RunConfig) -> str:
    """sha256 of all fields that affect results.

    Left out are the default reward, terms without weight, and fields added since, if their value gives the old
    behaviour. Old runs thus keep their digest.
    """
    rows = result_fields(config.model_dump(mode="json", exclude={"reward"}))
    if config.reward != RewardConfig():
        rows["reward"] = config.reward.weights | (
            {"discount": config.reward.discount} if config.reward.recovered else {}
        )
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def result_fields(content: dict[str, Any]) -> dict[str, Any]:
    """The fields of a dumped configuration that affect results.

    Left out are where the run is written, what only chats use, whether workspaces are kept, where and how concurrently
    it executes, how its models and search service are reached and retried (a server may move), the budget, the
    trackers, and the assumptions of the power calculation.
    """
    rows = {name: value for name, value in content.items() if name not in EXCLUDED_SECTIONS}
    if env := _without_later_fields("env", rows.pop("env", {})):
        rows["env"] = env
    if servers := rows.pop("mcp", {}).get("servers"):
        rows["mcp"] = {name: _without(server, *MCP_CONNECTION_FIELDS) for name, server in servers.items()}
    if judge := content.get("judge"):
        rows["judge"] = judge | {"model": _model_fields(judge["model"])}
    if auxiliary := content.get("auxiliary"):
        rows["auxiliary"] = _model_fields(auxiliary)
    return rows | {
        "model": _model_fields(content["model"]),
        # Where a program is installed does not matter; its version and digest are in the manifest.
        "agent": _without_later_fields("agent", _without(content["agent"], "at")),
        "learning": _without_later_fields("learning", _without(content["learning"], "expect")),
        "skills": _without_later_fields("skills", _without(content["skills"], "sources", "bundled")),
        "sandbox": _sandbox_fields(content["sandbox"]),
        "web": _without(content.get("web", {}), *CONNECTION_FIELDS),
        "run": _without(
            content["run"], "out", "concurrency", "executor", "processes", "ray", "keep_workspaces", "workspace_mb"
        ),
    }


def _model_fields(model: dict[str, Any]) -> dict[str, Any]:
    rows = _without_later_fields("model", _without(model, *CONNECTION_FIELDS)) | {
        "server": _without(model["server"], "port", "startup_seconds")
    }
    return rows | {name: _without_later_fields(name, model[name]) for name in ("sampling", "price")}


def _sandbox_fields(sandbox: dict[str, Any]) -> dict[str, Any]:
    """Without where the machine or service is, and what is only required of it."""
    rows = _without(sandbox, "require", "modal")
    if ssh := sandbox.get("ssh"):
        rows["ssh"] = {"isolation": ssh["isolation"]}
    if daytona := sandbox.get("daytona"):
        rows["daytona"] = {"snapshot": daytona["snapshot"]}
    return _without_later_fields("sandbox", rows)


def _without(section: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in section.items() if name not in names}


def _without_later_fields(name: str, section: dict[str, Any]) -> dict[str, Any]:
    added = FIELDS_ADDED_LATER[name]
    return {field: value for field, value in section.items() if field not in added or value != added[field]}
