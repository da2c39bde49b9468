"""Reads a Harbor task folder (schema 1.4): what the agent is asked, how it is verified, and what is not supported."""

import hashlib
import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hermes_lab.errors import ConfigError
from hermes_lab.tasks.adapters.harbor.dockerfile import Copy, Image, Refused, Run, normal, read_dockerfile

CONFIG, INSTRUCTION, DOCKERFILE, TEST = "task.toml", "instruction.md", "environment/Dockerfile", "tests/test.sh"
_COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
_CANARY = re.compile(r"^(<!--.*canary.*-->|#.*canary.*)$", re.IGNORECASE)
_SIZE = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*([KMG])B?", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STRATEGIES = ("mean", "final")
_TEMPLATE = re.compile(r"\$\{(\w+)(:-([^}]*))?\}")
_ROOT_USERS = (None, "root", 0, "0")
_PORTABLE = re.compile(r"[^|/\x00-\x1f]+")


@dataclass(frozen=True)
class Step:
    """One instruction and its verification. `name` is "" for a task with a single one.

    `tests` are the folders copied to /tests, later ones over earlier ones. `least` are the rewards without which no
    further step follows.
    """

    name: str
    instruction: str
    tests: tuple[Path, ...]
    timeout: float
    environment: Mapping[str, str]
    solution: Path | None
    seconds: float = 0.0
    least: Mapping[str, float] = field(default_factory=dict)
    workdir: Path | None = None


@dataclass(frozen=True)
class HarborTask:
    """A task folder. `image` is its Dockerfile; `problems` say why it cannot run here, each with file and field."""

    id: str
    folder: Path
    steps: tuple[Step, ...]
    image: Image | None
    docker_image: str
    workdir: str
    environment: Mapping[str, str]
    solution_environment: Mapping[str, str]
    build_seconds: float
    cpus: float
    memory_mb: int
    disk_mb: int
    internet: bool
    final: bool
    metadata: Mapping[str, Any]
    problems: tuple[str, ...]

    def digests(self) -> dict[str, str]:
        """sha256 of every file that decides what the agent is given or how it is judged, by path."""
        found = {}
        for path in sorted(_files(self.folder)):
            name = path.relative_to(self.folder).as_posix()
            if not name.startswith("solution/") and "/solution/" not in name:
                data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()  # noqa: PTH115
                found[name] = hashlib.sha256(data).hexdigest()
        return found

    @property
    def seconds(self) -> float:
        """The time that the agent has for all steps; 0 for no limit of the task's own."""
        times = [step.seconds for step in self.steps]
        return sum(times) if all(times) else 0.0


def task_folders(path: Path) -> list[Path]:
    """The task folders in a folder, or the folder itself. Raises `ConfigError` if there are none."""
    if (path / CONFIG).exists():
        return [path]
    found = sorted(each.parent for each in path.glob(f"*/{CONFIG}") if not each.parent.name.startswith("."))
    if not found:
        raise ConfigError(
            f"suite.path: {path}: no task folder in it has a {CONFIG}; name a folder of task folders, or one"
        )
    return found


def read_task(folder: Path) -> HarborTask:
    """Reads a task folder. Raises `ConfigError`, with file and field, for one that Harbor could not run either."""
    try:
        _check_files(folder)
        return _Reader(folder).read()
    except ConfigError:
        raise
    except (OSError, ValueError, RuntimeError) as error:  # such as a pattern of COPY that Python does not know
        raise ConfigError(f"{folder}: cannot be read: {error}") from None


def resolve_values(values: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Variables with the defaults of `${NAME:-default}`, and the names of those that need one of this machine's."""
    needed: list[str] = []

    def value(match: re.Match[str]) -> str:
        if match[2] is None:
            needed.append(match[1])
        return match[3] or ""

    return {name: _TEMPLATE.sub(value, text) for name, text in values.items()}, needed


class _Reader:
    """The tables of one task, and the problems found so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / CONFIG
        self.problems: list[str] = []
        self.table = _toml(self.file)

    def read(self) -> HarborTask:
        environment = self._section("environment")
        steps = self._steps()
        docker_image = self._text(environment, "environment.docker_image")
        image = None if docker_image else self._image()
        variables = self._variables(environment, "environment")
        workdir = self._text(environment, "environment.workdir") or (image.workdir if image else "")
        self._refuse(environment)
        for path in (*self.folder.glob("trajectory.json"), *self.folder.glob("steps/*/trajectory.json")):
            self._problem(path.relative_to(self.folder).as_posix(), "", "an earlier conversation is not supported")
        if not workdir or normal(workdir) == "/":
            where = CONFIG if docker_image else DOCKERFILE
            what = "environment.workdir" if docker_image else "WORKDIR"
            self._problem(where, what, "the working directory must be given, and not be /")
        metadata = self._section("metadata")
        return HarborTask(
            id=self._id(),
            folder=self.folder,
            steps=steps,
            image=image,
            docker_image=docker_image,
            workdir=normal(workdir),
            environment=variables,
            solution_environment=self._variables(self._section("solution"), "solution"),
            build_seconds=self._number(environment, "environment.build_timeout_sec") or 600.0,
            cpus=self._number(environment, "environment.cpus"),
            memory_mb=self._size(environment, "memory"),
            disk_mb=self._size(environment, "storage"),
            internet=environment.get("allow_internet") is True or environment.get("network_mode") == "public",
            final=self._strategy() == "final",
            metadata={
                name: metadata[name] for name in ("difficulty", "category", "tags") if _is_plain(metadata.get(name))
            },
            problems=tuple(self.problems),
        )

    def _strategy(self) -> str:
        strategy = self.table.get("multi_step_reward_strategy", "mean")
        if strategy not in _STRATEGIES:
            raise ConfigError(f"{self.file}: multi_step_reward_strategy: {strategy!r} is not one of mean, final")
        return str(strategy)

    def _least(self, value: Any, at: str) -> dict[str, float]:
        """The rewards of `min_reward`: a number, or a table of them."""
        rewards = value if isinstance(value, dict) else {} if value is None else {"reward": value}
        for name, reward in rewards.items():
            if isinstance(reward, bool) or not isinstance(reward, int | float) or not math.isfinite(reward):
                raise ConfigError(f"{self.file}: {at}min_reward: {reward!r} of {name} must be a finite number")
        return {name: float(reward) for name, reward in rewards.items()}

    def _instruction(self, path: Path) -> str:
        text = _without_canary(read_text(path))
        if not text.strip():
            raise ConfigError(f"{path}: is empty; it is what the agent is asked")
        return text

    def _id(self) -> str:
        given = self._section("task").get("name") or self.folder.resolve().name
        name = str(given).rpartition("/")[2]
        if not _PORTABLE.fullmatch(name):
            raise ConfigError(f"{self.file}: task.name: {name!r} contains '|' or a control character; rename it")
        return name

    def _steps(self) -> tuple[Step, ...]:
        given = self.table.get("steps") or []
        if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
            raise ConfigError(f"{self.file}: steps: must be a list of tables, [[steps]]")
        if not given:
            return (self._step("", self.folder, self.table),)
        names = [str(each.get("name", "")) for each in given]
        for name in names:
            if not _PORTABLE.fullmatch(name) or name in (".", "..") or names.count(name) > 1:
                raise ConfigError(f"{self.file}: steps.name: must be a unique folder name in steps/, not {name!r}")
        return tuple(
            self._step(name, self.folder / "steps" / name, each) for name, each in zip(names, given, strict=True)
        )

    def _step(self, name: str, folder: Path, table: Mapping[str, Any]) -> Step:
        at = f"steps.{name}." if name else ""
        shared = self._section("verifier")
        verifier = {**shared, **self._section("verifier", table, at)} if name else shared
        agent = {**self._section("agent"), **(self._section("agent", table, at) if name else {})}
        tests = tuple(path for path in dict.fromkeys((self.folder / "tests", folder / "tests")) if path.is_dir())
        script = next((path / "test.sh" for path in reversed(tests) if (path / "test.sh").is_file()), None)
        if script is None:
            raise ConfigError(f"{folder / TEST}: no such file; it verifies the task")
        read_text(script)
        self._refuse_phase(agent, f"{at}agent")
        self._refuse_phase(verifier, f"{at}verifier")
        if name and table.get("healthcheck"):
            self._problem(CONFIG, f"{at}healthcheck", "healthchecks are not supported")
        solution, workdir = folder / "solution", folder / "workdir"
        return Step(
            name=name,
            instruction=self._instruction(folder / INSTRUCTION),
            tests=tests,
            timeout=self._number(verifier, f"{at}verifier.timeout_sec") or 600.0,
            environment=self._variables(verifier, f"{at}verifier"),
            solution=solution if (solution / "solve.sh").is_file() else None,
            seconds=self._number(agent, f"{at}agent.timeout_sec"),
            least=self._least(table.get("min_reward"), at) if name else {},
            workdir=workdir if name and workdir.is_dir() else None,
        )

    def _image(self) -> Image | None:
        path = self.folder / DOCKERFILE
        if not path.is_file():
            if not any((path.parent / name).exists() for name in _COMPOSE):
                self._problem(DOCKERFILE, "", "no such file, and no environment.docker_image in task.toml")
            return None
        try:
            image = read_dockerfile(read_text(path))
        except Refused as refused:
            self._problem(f"{DOCKERFILE}:{refused.line}", "", str(refused))
            return None
        for step in image.steps:
            if isinstance(step, Copy):
                for source in step.sources:
                    if not context_paths(self.folder, source):
                        self._problem(f"{DOCKERFILE}:{step.line}", f"COPY {source}", "no such file in environment/")
        return image

    def _refuse(self, environment: Mapping[str, Any]) -> None:
        for name in _COMPOSE:
            if (self.folder / "environment" / name).exists():
                self._problem(f"environment/{name}", "services", "compose services are not supported")
        if (self.folder / "environment/.dockerignore").exists():
            self._problem("environment/.dockerignore", "", "is not supported")
        refused = {
            "gpus": "GPUs are not supported",
            "gpu_types": "GPUs are not supported",
            "tpu": "TPUs are not supported",
            "mcp_servers": "MCP servers are not supported",
            "healthcheck": "healthchecks are not supported",
        }
        for name, why in refused.items():
            if environment.get(name):
                self._problem(CONFIG, f"environment.{name}", why)
        if str(environment.get("os", "linux")).lower() != "linux":
            self._problem(CONFIG, "environment.os", "only linux is supported")
        self._refuse_network(environment, "environment")

    def _refuse_network(self, table: Mapping[str, Any], at: str) -> None:
        if table.get("network_mode") == "allowlist" or table.get("allowed_hosts"):
            self._problem(CONFIG, f"{at}.allowed_hosts", "network allow lists are not supported: there is no network")

    def _refuse_phase(self, table: Mapping[str, Any], at: str) -> None:
        self._refuse_network(table, at)
        if table.get("user") not in _ROOT_USERS:
            self._problem(CONFIG, f"{at}.user", "only root is supported")
        if table.get("environment") or table.get("environment_mode") == "separate":
            name = "environment" if table.get("environment") else "environment_mode"
            self._problem(CONFIG, f"{at}.{name}", "a separate environment for the verifier is not supported")
        if table.get("collect"):
            self._problem(CONFIG, f"{at}.collect", "collect hooks are not supported")

    def _problem(self, file: str, what: str, why: str) -> None:
        line = ": ".join(filter(None, (file, what, why)))
        if line not in self.problems:
            self.problems.append(line)

    def _section(self, name: str, table: Mapping[str, Any] | None = None, at: str = "") -> Mapping[str, Any]:
        section = (self.table if table is None else table).get(name, {})
        if not isinstance(section, dict):
            raise ConfigError(f"{self.file}: {at}{name}: must be a table, [{name}]")
        return section

    def _text(self, table: Mapping[str, Any], name: str) -> str:
        value = table.get(name.rpartition(".")[2]) or ""
        if not isinstance(value, str):
            raise ConfigError(f"{self.file}: {name}: must be a string, not {value!r}")
        return value

    def _number(self, table: Mapping[str, Any], name: str) -> float:
        """A positive number; 0 if it is not given."""
        value = table.get(name.rpartition(".")[2])
        if value is None:
            return 0.0
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
            raise ConfigError(f"{self.file}: {name}: must be a number above 0, not {value!r}")
        return float(value)

    def _size(self, environment: Mapping[str, Any], name: str) -> int:
        """MB of `memory_mb` or of the older `memory = "2G"`."""
        old = environment.get(name)
        if f"{name}_mb" not in environment and isinstance(old, str):
            match = _SIZE.fullmatch(old.strip())
            if not match:
                raise ConfigError(f"{self.file}: environment.{name}: must be a size such as '2G', not {old!r}")
            return int(float(match[1]) * {"K": 1 / 1024, "M": 1, "G": 1024}[match[2].upper()])
        return int(self._number(environment, f"environment.{name}_mb"))

    def _variables(self, table: Mapping[str, Any], at: str) -> dict[str, str]:
        given = table.get("env", {})
        if not isinstance(given, dict):
            raise ConfigError(f"{self.file}: {at}.env: must be a table, [{at}.env]")
        for name, value in given.items():
            if not _VARIABLE.fullmatch(name) or "\0" in str(value):
                raise ConfigError(
                    f"{self.file}: {at}.env: {name!r} is not a valid variable name, or its value contains a NUL"
                )
        values, needed = resolve_values({name: str(value) for name, value in given.items()})
        for name in needed:
            self._problem(CONFIG, f"{at}.env", f"reads the variable {name} of this machine, which is not passed on")
        return values


def read_text(path: Path) -> str:
    """The text of a file. Raises `ConfigError` if there is none, or if it is not UTF-8."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise ConfigError(f"{path}: {(error.strerror or '').lower() or 'cannot be read'}") from None


def context_paths(folder: Path, source: str) -> list[Path]:
    """The files and folders of the build context that a COPY names."""
    context = folder / "environment"
    relative = normal(source)[1:]
    if not relative:
        return [context]
    return (
        sorted(context.glob(relative))
        if re.search(r"[*?\[]", relative)
        else [context / relative] * _exists(context / relative)
    )


def requirement_files(folder: Path) -> dict[str, str]:
    """The texts of the build context's requirement files, by name."""
    found = (folder / "environment").glob("**/*require*.txt")
    return {path.name: path.read_text(errors="replace") for path in found if path.is_file()}


def commands(image: Image) -> Iterator[Run]:
    """The commands of an image."""
    return (step for step in image.steps if isinstance(step, Run))


def _exists(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value))


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        match = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", str(error))
        what, line = (match[1], f":{match[2]}") if match else (str(error), "")
        raise ConfigError(f"{path}{line}: not TOML: {what[:1].lower()}{what[1:]}") from None


def _without_canary(text: str) -> str:
    """The instruction without marks against its use in training at the beginning, as in Harbor."""
    lines: Sequence[str] = text.split("\n")
    while lines and _CANARY.match(lines[0].strip()):
        lines = lines[1:]
    while lines and not lines[0].strip():
        lines = lines[1:]
    return "\n".join(lines)


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", ".git"))
        links = [name for name in folders if (Path(root) / name).is_symlink()]
        yield from (Path(root) / name for name in (*names, *links))


def _check_files(folder: Path) -> None:
    inside = folder.resolve()
    for path in _files(folder):
        if not _is_unicode(str(path)):
            raise ConfigError(
                f"{str(path).encode(errors='backslashreplace').decode()}: its name is not UTF-8; rename it"
            )
        if not path.is_symlink() and not path.is_file():
            raise ConfigError(f"{path}: is neither a file nor a folder nor a link; remove it")
        if path.is_symlink() and not path.resolve().is_relative_to(inside):
            raise ConfigError(f"{path}: a link that leads out of the task's folder; put a copy in its place")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, as Python reads a byte of a name that is not UTF-8
        return False
    return True
