"""The kinds of configuration file, and what is wrong with one."""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.config.fields import SectionDoc, sections_of
from hermes_lab.config.home import HomeConfig
from hermes_lab.config.home_file import FILE, problems_in_home, resolve_home
from hermes_lab.config.paths import Problem
from hermes_lab.config.problems import find_problems
from hermes_lab.config.schema import RunConfig
from hermes_lab.config.section import Section
from hermes_lab.config.sources import Merged, origin_of, resolve
from hermes_lab.cron.jobs import problems_of_jobs
from hermes_lab.errors import ConfigError
from hermes_lab.sessions import hermes_home
from hermes_lab.text.suggest import did_you_mean


class Kind(NamedTuple):
    """A kind of file: its schema, what it is for, the commands that read it, and the fields it may leave to `-c`."""

    name: str
    schema: type[Section]
    title: str
    commands: str
    optional: tuple[str, ...] = ()


def kinds() -> dict[str, Kind]:
    """All kinds by name."""
    from hermes_lab.envs.atropos.config import EnvConfig
    from hermes_lab.runners.experiments.study import StudyConfig
    from hermes_lab.training.config import TrainConfig
    from hermes_lab.training.grpo_config import GrpoConfig
    from hermes_lab.training.lock import LockedConfig

    every = (
        Kind("run", RunConfig, "Runs and experiments", "run, experiment, chat, serve"),
        Kind("home", HomeConfig, "Chats: the fields of a run, and these", "chat"),
        Kind("study", StudyConfig, "Studies", "study"),
        Kind("train", TrainConfig, "Training on run folders", "train sft, train preference", ("data",)),
        Kind("grpo", GrpoConfig, "GRPO training", "train grpo"),
        Kind("lock", LockedConfig, "Locked hyperparameters", "train lock"),
        Kind("env", EnvConfig, "Environments: the fields of a run, and these", "env serve, env process, env evaluate"),
    )
    return {kind.name: kind for kind in every}


def documented(kind: Kind) -> list[SectionDoc]:
    """The sections of that kind; those of a schema with a run's fields are what a run does not have."""
    sections = list(sections_of(kind.schema))
    if kind.schema is not RunConfig and issubclass(kind.schema, RunConfig):
        runs = {row.path for section in sections_of(RunConfig) for row in section.fields}
        own = [each._replace(fields=tuple(row for row in each.fields if row.path not in runs)) for each in sections]
        return [section for section in own if section.fields]
    return sections


def home_file() -> Path:
    """The configuration of the person's chats."""
    return hermes_home() / FILE


def is_home_file(source: str) -> bool:
    """Whether that source is `home_file`."""
    return Path(source).absolute() == home_file().absolute()


def kind_of(sources: Sequence[str]) -> Kind:
    """The kind of the merged sources, by their fields. Raises `ConfigError` for a file that cannot be read."""
    from hermes_lab.training.lock_enforcement import Given

    if any(map(is_home_file, sources)):
        return kinds()["home"]
    given: set[str] = set()
    for source in sources:
        given |= Given.by(source).keys()
    every = kinds()
    if given & {"parts", "variants"}:
        return every["study"]
    if "rollouts" in given:
        return every["grpo"]
    if given & {"lock", "data", "gate"}:
        return every["train"]
    if given & (every["lock"].schema.model_fields.keys() | {"digest"}):
        return every["lock"]
    if given & (HomeConfig.model_fields.keys() - RunConfig.model_fields.keys()):
        return every["home"]
    return every["env" if "env" in given else "run"]


def problems_in(kind: Kind, sources: Sequence[str]) -> list[Problem]:
    """Everything that is wrong with the merged sources. A study and a training are also checked run by run."""
    from hermes_lab.training.lock import load_lock

    if kind.name == "lock":
        return _refused(lambda: load_lock(Path(sources[0])), sources[0])
    if kind.name == "home":
        found, merged = problems_in_home(Path(sources[0]), sources[1:])
        found += _unknown_names(merged, found)
        return found or problems_of_jobs(resolve_home(Path(sources[0]), sources[1:]), datetime.now(UTC))
    attempts = list(_attempts(kind, sources)) if kind.name in ("train", "grpo") else []
    found = [*attempts, *find_problems(kind.schema, sources, kind.optional)]
    locked = {problem.field for problem in attempts}
    found = [problem for problem in found if problem in attempts or problem.field not in locked]  # no unknown fields
    if issubclass(kind.schema, RunConfig):
        read = _merged(sources)
        return found + (_unknown_names(read, found) if read else [])
    if found:
        return found
    return _of_study(sources) if kind.name == "study" else _of_training(kind, sources)


def missing_in(kind: Kind, sources: Sequence[str]) -> list[str]:
    """The required fields that the sources leave to the command line."""
    given = Merged(kind.schema, None)
    for source in sources:
        given.add(source)
    return [field for field in kind.optional if field not in given.values]


def _attempts(kind: Kind, sources: Sequence[str]) -> Iterator[Problem]:
    """Locked fields that a training's configuration sets."""
    from hermes_lab.training.lock_enforcement import locked_fields, refusal

    merged = Merged(kind.schema, None)
    for source in sources:
        merged.add(source)
    merged.resolve_paths()
    lock = merged.values.get("lock")
    for field in locked_fields(merged.values):
        where = origin_of(tuple(field.split(".")), merged.origins) or origin_of((field.split(".")[-1],), merged.origins)
        try:
            why = refusal(field, lock if isinstance(lock, str) else "")
        except ConfigError:  # the lock itself is wrong, which is told beside this
            why = refusal(field, "")
        yield Problem(where, field, f"{where}: {why}")


def _merged(sources: Sequence[str]) -> Merged | None:
    """The sources of a run; None if one cannot be read."""
    merged = Merged(RunConfig, None)
    for source in sources:
        try:
            merged.add(source)
        except ConfigError:
            return None
    return merged


def _unknown_names(merged: Merged, found: Collection[Problem]) -> list[Problem]:
    """A suite or toolset that is not there."""
    from hermes_lab.config.schema import AgentConfig, SuiteConfig
    from hermes_lab.tasks.registry import is_own, list_suites, load_suite
    from hermes_lab.tools.distributions import check_tools

    wrong = {problem.field.partition(".")[0] for problem in found}
    problems = []
    if "suite" not in wrong and (name := SuiteConfig(**merged.values.get("suite", {})).name):
        known = list_suites()
        if is_own(name):
            try:
                load_suite(SuiteConfig(**merged.values["suite"]))
            except ConfigError as error:
                problems.append((error.field or "suite.name", error.message))
        elif name not in known:
            mend = did_you_mean(name, known, "`hermes-lab tasks list` lists the suites")
            problems.append(("suite.name", f"no suite {name!r}{mend}"))
    if "agent" not in wrong:
        try:
            check_tools(AgentConfig(**merged.values.get("agent", {})))
        except ConfigError as error:
            problems.append((error.field or "agent.toolsets", error.message))
    return [_located(field, message, merged) for field, message in problems]


def _located(field: str, message: str, merged: Merged) -> Problem:
    where = origin_of(tuple(field.split(".")), merged.origins)
    return merged.shown(Problem(where, field, f"{where}: {field}: {message}" if where else f"{field}: {message}"))


def _of_study(sources: Sequence[str]) -> list[Problem]:
    """What is wrong with the runs of a study, each mistake once."""
    from hermes_lab.runners.experiments.study import read_study

    study = read_study(Path(sources[0]), list(sources[1:]), {})
    found: dict[str, Problem] = {}
    for run in study.runs:
        for problem in problems_in(kinds()["run"], run.sources):
            message = f"{sources[0]}: part {run.part}, variant {run.variant}: {problem.message}"
            found.setdefault(problem.message, problem._replace(message=message))
    return list(found.values())


def _of_training(kind: Kind, sources: Sequence[str]) -> list[Problem]:
    """What is wrong with a training's lock, and with the runs of GRPO."""
    from hermes_lab.training.grpo_config import GrpoConfig, grpo_lock
    from hermes_lab.training.lock import load_lock
    from hermes_lab.training.lock_enforcement import locked_evaluation_config, locked_run_config

    values = Merged(kind.schema, None)
    for source in sources:
        values.add(source)
    values.resolve_paths()
    path = str(values.values["lock"])
    if problems := _refused(lambda: load_lock(Path(path)), path):
        return problems
    if kind.schema is not GrpoConfig:
        return []
    config, locked = resolve(GrpoConfig, sources).config, load_lock(Path(path))
    found = _refused(lambda: grpo_lock(config, locked), path)
    for field, runs in (("rollouts", config.rollouts), ("heldout", config.heldout)):
        held = locked_run_config if field == "rollouts" else locked_evaluation_config
        wrong = problems_in(kinds()["run"], runs) if runs else []
        wrong = wrong or (_refused(lambda held=held, runs=runs: held(runs, locked, path), field) if runs else [])
        found += [each._replace(message=f"{field}: {each.message}") for each in wrong]
    return found


def _refused(read: Any, where: str) -> list[Problem]:
    """The error that `read` raises, if any."""
    try:
        read()
    except ConfigError as error:
        return [Problem(where, "", str(error))]
    return []
