"""The folder of a run: created, or reopened by `--resume` if it holds the same run."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import msgspec

from hermes_lab.config.digest import config_digest
from hermes_lab.config.schema import RunConfig
from hermes_lab.durable import hold_folder
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import RunManifest, config_differences, read_manifest, versions
from hermes_lab.mcp.snapshot import differences, tools_digest
from hermes_lab.records import episode_files, read_attempts, write_atomic, write_json
from hermes_lab.registration import is_extended, read_plan
from hermes_lab.tasks_version import other_versions
from hermes_lab.text.counted import counted
from hermes_lab.types import ProgramUse, ServedTools

_SAME_CONTENT = {"suite.path": "tasks_digest", "skills.library": "library", "model.adapter": "adapter_digest"}
"""Fields with a path, and the digest in `run.json` of what is there: another spelling of the path is the same run."""
_WORLDS = "learning.worlds"
_COMMANDS = {"learn": "experiment"}
"""Commands whose name in `run.json` differs from the one on the command line."""


def open_folder(
    out: Path,
    *,
    command: str,
    config: RunConfig,
    tasks_digest: str,
    library: str,
    adapter_digest: str,
    wanted: int,
    program: ProgramUse | None = None,
    resume: bool,
    left_out: Mapping[str, str] = MappingProxyType({}),
    served: Mapping[str, ServedTools] = MappingProxyType({}),
    tasks_of: Callable[[int], str] | None = None,
) -> str:
    """Creates the folder of a new run, or checks that it holds this run. The caller must hold `lock_folder`.

    A folder without episodes counts as new. So does one to resume as a different run, if none of its episodes has
    finished: its failed ones are moved aside. A run of an experiment that is resumed with more worlds is extended;
    `tasks_of` gives the digest of the tasks of that many worlds. Returns a line that says what was done, or "".
    Raises `ConfigError` if the folder holds a run and `resume` is not set, or if it holds another run, naming the
    difference.
    """
    manifest = RunManifest(
        command=command,
        config=config.model_dump(mode="json"),
        config_digest=tools_digest(config_digest(config), served),
        tasks_digest=tasks_digest,
        library=library,
        adapter_digest=adapter_digest,
        wanted=wanted,
        left_out=dict(left_out),
        mcp=dict(served),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
        program=program,
    )
    check_folder(out, resume=resume)
    remark = ""
    if (out / "run.json").exists() and episode_files(out):
        earlier = read_manifest(out)
        extended = _extended(out, earlier, manifest, tasks_of) if tasks_of and resume else earlier
        try:
            _refuse_difference(out, extended, manifest)
        except ConfigError:
            if earlier.rescored or earlier.command != command or _has_finished(out):
                raise
            if not resume:
                again = "begin it again with --resume (in Python, resume=True)"
                raise ConfigError(
                    f"{out}: holds a run of which nothing has finished; {again}, or choose another --out"
                ) from None
            remark = (
                f"nothing has finished in {out}: it begins again; its failed episodes are kept in {_set_aside(out)}"
            )
        else:
            if not resume:
                resume_it = "continue it with --resume (in Python, resume=True)"
                raise ConfigError(f"{out}: already holds a run; {resume_it}, or choose another --out")
            if extended is earlier:
                return ""
            write_json(out / "run.json", extended)
            was, is_ = (each.config["learning"]["worlds"] for each in (earlier, extended))
            return f"{out}: extended from {counted(was, 'world')} to {is_}; its comparisons are exploratory from now on"
    write_json(out / "run.json", manifest)
    return remark


def _extended(out: Path, earlier: RunManifest, now: RunManifest, tasks_of: Callable[[int], str]) -> RunManifest:
    """The manifest of a run with as many worlds as `now`, if that is more and all else is the same; else `earlier`.

    The lanes of the first worlds are the same in both. All episodes keep the digest of the configuration that the run
    began with. Raises `ConfigError` if the run has a stopping rule, which counts on its worlds, if its tasks have
    changed, or its plan.
    """
    differing = {field: values for field, *values in config_differences(earlier, now)}
    was, is_ = differing.pop(_WORLDS, (0, 0))
    if earlier.command != now.command or is_ <= was or not _has_finished(out):
        return earlier
    then = msgspec.structs.replace(now, tasks_digest=tasks_of(was))
    if not all(_is_same_content(earlier, then, field, *values) for field, values in differing.items()):
        return earlier
    if now.config["learning"]["stop"]["when"] != "never":
        raise ConfigError(
            f"{out}: its stopping rule is over {counted(was, 'world')}, so it cannot be extended to {is_}; choose "
            "another --out"
        )
    _refuse_other_tasks(out, earlier.tasks_digest, then.tasks_digest)
    read_plan(out)
    config = earlier.config | {"learning": earlier.config["learning"] | {"worlds": is_}}
    return msgspec.structs.replace(
        earlier, config=config, wanted=now.wanted, tasks_digest=now.tasks_digest, left_out=now.left_out
    )


class _Attempt(msgspec.Struct):
    v: int
    status: str


def _has_finished(out: Path) -> bool:
    return any(attempt.status == "ok" for attempt in read_attempts(out, _Attempt))


def _set_aside(out: Path) -> Path:
    """Moves the episode logs into a folder of their own, where nothing reads them; returns it.

    After a kill in between, the next start moves the others: `run.json` is replaced last.
    """
    number = sum(1 for _ in (out / "episodes").glob("failed-*"))
    aside = out / "episodes" / f"failed-{number}"
    aside.mkdir()
    for log in episode_files(out):
        log.rename(aside / log.name)
    return aside


def check_folder(out: Path, *, resume: bool) -> None:
    """Raises `ConfigError` if there is no run to resume, or if `out` holds other files. Writes nothing."""
    if (out / "run.json").exists():
        return
    if resume:
        raise ConfigError(f"{out}: no run to resume (no run.json); leave out --resume to start one")
    # Dotfiles are the lock file and temporary files left by a killed process.
    if out.is_dir() and any(not path.name.startswith(".") for path in out.iterdir()):
        raise ConfigError(f"{out}: not empty and not a run; choose another --out")


def keep_suite(out: Path, config: RunConfig) -> None:
    """Copies the suite's file into the run, so that episodes can be rerun after the original is gone.

    A copy that a run without episodes left there is replaced, since its `run.json` is, too. A folder of tasks, which
    may be large, stays where it is.
    """
    if not Path(config.suite.path).is_file():
        return
    kept = _suite_file(out, config)
    if not kept.exists() or not episode_files(out):
        write_atomic(kept, Path(config.suite.path).read_bytes())


def with_kept_suite(out: Path, config: RunConfig) -> RunConfig:
    """The configuration with the run's copy of the suite's file."""
    if not config.suite.path or not (kept := _suite_file(out, config)).exists():
        return config
    return config.model_copy(update={"suite": config.suite.model_copy(update={"path": str(kept)})})


def _suite_file(out: Path, config: RunConfig) -> Path:
    return out / "suite" / Path(config.suite.path).name  # the file's name is the suite's name


def _refuse_difference(out: Path, earlier: RunManifest, now: RunManifest) -> None:
    if earlier.rescored:
        raise ConfigError(f"{out}: was written by `rescore`, which alone continues it; choose another --out")
    if earlier.command != now.command:
        was, is_ = (_COMMANDS.get(each.command, each.command) for each in (earlier, now))
        raise ConfigError(f"{out}: was started by `{was}`, not `{is_}`")
    if earlier.prompts != now.prompts:
        raise ConfigError(
            f"{out}: was started with version {earlier.prompts} of the prompts, and this Hermes Lab has version "
            f"{now.prompts}; resume with the Hermes Lab that started it, or choose another --out"
        )
    differing = [each for each in config_differences(earlier, now) if not _is_same_content(earlier, now, *each)]
    differing.sort(key=lambda each: each[0] == _WORLDS)  # another field first: more worlds alone extend the run
    if differing:
        field, was, is_ = differing[0]
        more = field == _WORLDS and is_ > was and now.command == "learn"
        do = "add --resume (in Python, resume=True) to extend it" if more else "resume with the same value"
        was, is_ = ("null" if each is None else each for each in (was, is_))
        began = (
            "was extended to"
            if field == _WORLDS and is_extended(read_plan(out), earlier.wanted)
            else "was started with"
        )
        raise ConfigError(f"{out}: {began} {field}={was}, now {is_}; {do}, or choose another --out")
    if changed := next(differences(earlier.mcp, now.mcp), ""):
        raise ConfigError(f"{out}: {changed} since the run started; restore it, or choose another --out")
    if earlier.program != now.program:
        was, is_ = (_program(each.program) for each in (earlier, now))
        raise ConfigError(
            f"{out}: was started with {was}, now it is {is_}; name the same installation with agent.at, or choose "
            "another --out"
        )
    adapters = "learning.adapters" if now.config["learning"]["adapters"] else "model.adapter"
    _refuse_other_tasks(out, earlier.tasks_digest, now.tasks_digest)
    for field, what in (
        ("library", "the skills of skills.library"),
        ("adapter_digest", f"the weights of {adapters}"),
    ):
        if getattr(earlier, field) != getattr(now, field):
            raise ConfigError(f"{out}: {what} have changed since the run started; choose another --out")


def _refuse_other_tasks(out: Path, was: str, now: str) -> None:
    if other := other_versions(was, now):
        raise ConfigError(
            f"{out}: was started with version {other[0]} of the tasks, now it is {other[1]}, with other texts; choose "
            "another --out, or resume with the release of the lab that started it"
        )
    if was != now:
        raise ConfigError(f"{out}: the suite's tasks have changed since the run started; choose another --out")


def _is_same_content(earlier: RunManifest, now: RunManifest, field: str, was: object, is_: object) -> bool:
    """Whether a field only names the same tasks, skills or weights by another path, such as from another folder.

    The file of a suite must keep its name, which is that of the suite. Learning episodes (`reviews`) are compared by
    the digest of the configuration, so they keep the spelling, too.
    """
    if field not in _SAME_CONTENT or not (was and is_) or now.command == "reviews":
        return False
    if field == "suite.path" and Path(str(was)).name != Path(str(is_)).name:
        return False
    digest = getattr(earlier, _SAME_CONTENT[field])
    return bool(digest) and digest == getattr(now, _SAME_CONTENT[field])


def _program(program: ProgramUse | None) -> str:
    return f"{program.name} {program.version} (digest {program.digest[:12]})" if program else "no program"


@contextmanager
def lock_folder(out: Path) -> Iterator[None]:
    """Creates the folder of a run and locks it against other processes (`hold_folder`)."""
    with hold_folder(out, "run.out"):
        yield
