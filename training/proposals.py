"""Training proposals by an agent. Each is a file that a person can start.

`$HERMES_HOME/proposals/<method>/<name>.yaml` is a configuration for `hermes-lab train <method> -c FILE`. Nothing here
starts a training, and proposals are not trusted: starting one applies the usual checks.
"""

import os
import re
import shlex
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hermes_lab.config.sources import absolute_paths
from hermes_lab.durable import sync_folder
from hermes_lab.errors import ConfigError
from hermes_lab.models.cards import Method
from hermes_lab.sessions.home import hermes_home
from hermes_lab.training.adapters import versions
from hermes_lab.training.config import TrainConfig, Training, load_training
from hermes_lab.training.grpo_config import GrpoConfig
from hermes_lab.training.rounds import Rounds

SCHEMAS: dict[Method, type[Training]] = {"sft": TrainConfig, "preference": TrainConfig, "grpo": GrpoConfig}
"""The configuration schema of each method."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MOST = 50
"""Maximum number of pending proposals."""
_LARGEST = 1 << 16
"""Largest proposal file in bytes."""
_DEEPEST = 16
_WITHDRAWN = ".withdrawn"


class Proposal(NamedTuple):
    """A proposal file. `problem` says why it could not be started as is; `started` is whether a training of that name
    exists."""

    method: Method
    name: str
    path: Path
    config: Training | None
    problem: str
    started: bool

    @property
    def command(self) -> str:
        """The command that starts it."""
        return f"hermes-lab train {self.method} -c {shlex.quote(str(self.path))}"


def proposals_folder() -> Path:
    """The folder of proposals; it may not exist yet."""
    return hermes_home() / "proposals"


def write_proposal(method: Method, config: Training, reason: str) -> Proposal:
    """Writes a new proposal atomically.

    Raises `ConfigError` if its name is taken by a proposal or a training, or too many are pending.
    """
    folder = proposals_folder() / method
    path = folder / f"{config.name}.yaml"
    waiting = list_proposals()
    if not _NAME.fullmatch(config.name):
        raise ConfigError(f"name: {config.name[:80]!r} is no name: give up to 64 letters, digits, dots and dashes")
    if any(one.name.lower() == config.name.lower() for one in waiting):
        raise ConfigError(f"name: a proposal {config.name!r} is there already; give another name")
    if is_started(config):
        raise ConfigError(f"name: a training {config.name!r} is there already; give another name")
    if sum(not one.started for one in waiting) >= _MOST:
        raise ConfigError(f"{_MOST} proposals wait for a person already; withdraw one")
    folder.mkdir(parents=True, exist_ok=True)
    _write_new(path, _header(method, path, reason) + _content(config))
    return _read(method, path)


def list_proposals() -> list[Proposal]:
    """All proposals that are not withdrawn, including invalid files, sorted by method and name."""
    found = [(method, path) for method in SCHEMAS for path in sorted((proposals_folder() / method).glob("*.yaml"))]
    return [_read(method, path) for method, path in found if _NAME.fullmatch(path.stem)]


def find_proposal(name: str) -> Proposal:
    """The proposal with this name. Raises `ConfigError` if there is none."""
    proposals = list_proposals()
    found = next((one for one in proposals if one.name == name), None)
    if found is None:
        known = ", ".join(one.name for one in proposals) or "none"
        raise ConfigError(f"no proposal {name[:80]!r}; there are: {known}")
    return found


def withdraw(proposal: Proposal) -> None:
    """Withdraws a proposal by renaming its file, so that it is no longer listed."""
    try:
        proposal.path.replace(proposal.path.with_name(proposal.path.name + _WITHDRAWN))
    except FileNotFoundError:
        raise ConfigError(f"no proposal {proposal.name!r} any more") from None
    sync_folder(proposal.path.parent)


def read_text(proposal: Proposal) -> str:
    """The content of the file. Raises `ConfigError` unless it is a small text file."""
    if proposal.path.is_symlink() or not proposal.path.is_file():
        raise ConfigError(f"{proposal.path}: not a file")
    with proposal.path.open("rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ConfigError(f"{proposal.path}: larger than {_LARGEST >> 10} kB; no proposal is")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{proposal.path}: not a text file in UTF-8") from None


def is_started(config: Training) -> bool:
    """Whether a training with this name exists."""
    begun = isinstance(config, GrpoConfig) and Rounds(Path(config.out)).begun
    return begun or bool(versions(Path(config.adapters), config.name))


def _read(method: Method, path: Path) -> Proposal:
    bare = Proposal(method, path.stem, path, None, "", started=False)
    try:
        if objection := _objection(read_text(bare)):
            return bare._replace(problem=f"{path}: {objection}")
        config = load_training(SCHEMAS[method], [str(path)])
    except (ConfigError, OSError) as error:
        return bare._replace(problem=str(error))
    if config.name != path.stem:
        return bare._replace(problem=f"{path}: name: {config.name!r} is not that of the file")
    return bare._replace(config=config, started=is_started(config))


def _objection(text: str) -> str:
    """Why the YAML must not be loaded: aliases can expand without limit, and deep nesting takes minutes to parse."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent):
                return "YAML aliases are not read here; write the values out"
            if depth > _DEEPEST:
                return "nested too deeply"
    except yaml.YAMLError:
        pass  # the caller's load reports the error
    return ""


def _header(method: Method, path: Path, reason: str) -> str:
    """Header comments. The agent's reason is kept on one line, so that it cannot add fields."""
    said = "".join(letter if letter.isprintable() else "?" for letter in " ".join(reason.split()))
    when = datetime.now(UTC).isoformat(timespec="seconds")
    command = Proposal(method, path.stem, path, None, "", started=False).command
    return f"# Proposed by an agent on {when}, from {Path.cwd()}: {said}\n# Read it, then start it:  {command}\n"


def _content(config: Training) -> str:
    given: Mapping[str, Any] = config.model_dump(mode="json", exclude_unset=True)
    return yaml.safe_dump(absolute_paths(type(config), given), sort_keys=False, allow_unicode=True)


def _write_new(path: Path, text: str) -> None:
    """Like `write_atomic`, but never overwrites a file."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(temporary)
    except FileExistsError:
        raise ConfigError(f"name: a proposal {path.stem!r} is there already; give another name") from None
    finally:
        Path(temporary).unlink()
    sync_folder(path.parent)
