"""The fields that an agent may set when it proposes a training. A person provides the template and the lock."""

import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args

from pydantic import TypeAdapter, ValidationError

from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_section, read_values
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import read_manifest
from hermes_lab.models.adapters import packaged_folder
from hermes_lab.models.cards import Method
from hermes_lab.training.adapters import find_adapter
from hermes_lab.training.config import Training
from hermes_lab.training.grpo_config import GrpoConfig, grpo_lock
from hermes_lab.training.lock import HOW_TO_CHANGE, RUN_FIELDS, LockedConfig, load_lock, lock_digest
from hermes_lab.training.lock_enforcement import locked_fields, locked_run_config, refusal
from hermes_lab.training.proposals import SCHEMAS

TEMPLATES = Path("configs/train")
"""The folder of the templates, `<method>.yaml` for each method. A template names the lock."""
RUNS = Path("runs")
METHODS: tuple[Method, ...] = get_args(Method)

_TEXT, _TEXTS, _COUNT = TypeAdapter(str), TypeAdapter(list[str]), TypeAdapter(int)
_OWN: dict[str, TypeAdapter[Any]] = {"name": _TEXT, "parent": _TEXT}
_ON_RUNS = _OWN | {"data": _TEXTS}
_ON_TASKS = _OWN | {"suite.world": _COUNT, "learning.worlds": _COUNT}
_PREFIXES = ("lock", "locked", "config", "train", "training")


class Choice:
    """The choices made in one episode (`ToolContext.state`)."""

    def __init__(self) -> None:
        self.method: Method = "grpo"
        self.environment = ""
        self.edits: dict[str, Any] = {}

    def select(self, environment: str, method: Method) -> None:
        """Starts a new choice. Raises `ConfigError` for an unknown environment or a method without a template."""
        from hermes_lab.tasks.registry import list_suites

        if environment not in (known := list_suites()):
            raise ConfigError(f"environment: no {environment[:80]!r}; there are: {', '.join(known)}")
        _template(method)
        self.method, self.environment = method, environment
        self.edits = {"name": f"{method}-{environment}"}

    def fields(self) -> tuple[str, ...]:
        """The fields that an agent may set."""
        return tuple(_editable(self.method))

    def edit(self, field: str, value: Any) -> None:
        """Sets one field. Raises `ConfigError` for a locked, reserved or unknown field, and for an invalid value."""
        self._require()
        plain = _plain(field)
        if plain not in _editable(self.method):
            raise ConfigError(self._refusal(plain, value))
        try:
            edited = _editable(self.method)[plain].validate_python(value, strict=True)
        except ValidationError as error:
            raise ConfigError(f"{plain}: {error.errors()[0]['msg']}") from None
        self.edits[plain] = edited if plain != "data" else [_run(name) for name in edited]

    def content(self) -> dict[str, Any]:
        """The template with the choices applied."""
        self._require()
        chosen = _template(self.method) | {name: self.edits[name] for name in self.edits if "." not in name}
        if self.method == "grpo":
            suite = f"suite.name={self.environment}"
            tasks = [f"{name}={value}" for name, value in self.edits.items() if "." in name]
            chosen.pop("families", None)  # of other environments
            chosen["rollouts"] = [*chosen.get("rollouts", ()), suite, *tasks]
            if chosen.get("heldout"):
                chosen["heldout"] = [*chosen["heldout"], suite]
            chosen["out"] = str(RUNS / self.edits["name"])
        return chosen

    def locked(self) -> tuple[str, LockedConfig]:
        """The lock file and its values. Raises `ConfigError` if the file was changed."""
        path = str(_template(self.method).get("lock", ""))
        return path, load_lock(Path(path))

    def config(self) -> Training:
        """The training configuration, validated as far as possible without starting it. Raises `ConfigError`."""
        config = load_section(SCHEMAS[self.method], (), self.content())
        _, locked = self.locked()
        if config.parent:
            config = config.model_copy(update={"parent": str(_parent(config))})
        if isinstance(config, GrpoConfig):
            grpo_lock(config, locked)
            _check_suite(locked_run_config(config.rollouts, locked, config.lock))
        for run in getattr(config, "data", ()):
            suite = read_manifest(Path(run)).config["suite"]
            if suite["name"] != self.environment:
                raise ConfigError(f"data: {run} is of the environment {suite['name'] or suite['path']!r}")
        return config

    def _require(self) -> None:
        if not self.environment:
            raise ConfigError("no environment is chosen yet; choose one first")

    def _refusal(self, field: str, value: Any) -> str:
        lock = str(_template(self.method).get("lock", ""))
        if attempts := locked_fields(_nested(field, value)):
            return refusal(attempts[0], lock)
        if field in RUN_FIELDS:
            return f"{field} is decided by the lock: {refusal(RUN_FIELDS[field], lock)}"
        if field.partition(".")[0] in (*_PREFIXES, "digest"):
            digest = lock_digest(load_lock(Path(lock)))
            return f"{field} is locked: this training is under {lock}, digest {digest}; {HOW_TO_CHANGE}"
        yours = f"fields that can be edited: {', '.join(self.fields())}"
        if field.partition(".")[0] in SCHEMAS[self.method].model_fields:
            return f"{field} is a person's choice, made in {_template_path(self.method)}; {yours}"
        return f"no field {field[:80]!r}; {yours}"


def templates() -> dict[str, str]:
    """The methods that can be proposed, with their template files."""
    return {method: str(_template_path(method)) for method in METHODS if _template_path(method).is_file()}


def _template_path(method: Method) -> Path:
    return TEMPLATES / f"{method}.yaml"


def _template(method: Method) -> dict[str, Any]:
    path = _template_path(method)
    if not path.is_file():
        there = ", ".join(templates()) or "none"
        raise ConfigError(f"method: a person has no {path} here; methods that can be proposed: {there}")
    return read_values(SCHEMAS[method], [str(path)])


def _parent(config: Training) -> Path:
    """An adapter of the registry, or the packaged one. Raises `ConfigError` for any other folder."""
    folder, root = find_adapter(config.parent, Path(config.adapters)).resolve(), Path(config.adapters)
    if not folder.is_relative_to(root.resolve()) and folder != packaged_folder().resolve():
        raise ConfigError(f"parent: {config.parent[:80]!r} is no adapter below {root}/, nor `packaged`")
    return find_adapter(config.parent, root)


def _check_suite(run: RunConfig) -> None:
    from hermes_lab.tasks.registry import load_suite

    load_suite(run.suite, run.sandbox)


def _editable(method: Method) -> Mapping[str, TypeAdapter[Any]]:
    return _ON_TASKS if method == "grpo" else _ON_RUNS


def _plain(field: str) -> str:
    """Normalises `learningRate`, `LEARNING-RATE`, ` lock.learning_rate` etc. to one spelling."""
    text = unicodedata.normalize("NFKC", field).strip()
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()
    text = re.sub(r"[\s-]+", "_", re.sub(r"[/:>]+", ".", text))
    head, _, rest = text.partition(".")
    while rest and head in _PREFIXES:
        text = rest
        head, _, rest = text.partition(".")
    return text


def _nested(field: str, value: Any) -> dict[str, Any]:
    nested: Any = value
    for part in reversed(field.split(".")):
        nested = {part: nested}
    return cast(dict[str, Any], nested)


def _run(name: str) -> str:
    """A run folder below `runs/`. Raises `ConfigError` for any other folder."""
    given = Path(name) if Path(name).parts[:1] == RUNS.parts else RUNS / name
    inside = given.resolve().is_relative_to(RUNS.resolve()) and (given / "run.json").is_file()
    if not inside or not (given / "episodes").is_dir():
        raise ConfigError(f"data: {name[:80]!r} is no run folder below {RUNS}/")
    return str(given)
