"""`config`: shows, documents and checks configurations."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes_lab.errors import ConfigError
from hermes_lab.runners import output
from hermes_lab.runners.commands import options

if TYPE_CHECKING:
    from hermes_lab.config.fields import FieldDoc, SectionDoc
    from hermes_lab.config.paths import Problem
    from hermes_lab.config.sources import Resolved
    from hermes_lab.runners.config_files import Kind

PAGE = "docs/configuration.md"
_KIND = "What it configures: run, home, study, train, grpo, lock or env."


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Configurations: every field, the merged result, and mistakes.", no_args_is_help=True)
    group.command(
        "show",
        help="Print the configuration that files and overrides give together, as YAML. A value that is not the "
        "default is followed by the file and line, or `command line`, that set it. Possible secrets are shown as "
        "***.\n\n"
        "hermes-lab config show -c configs/run.yaml -c run.samples=4\n\n"
        "hermes-lab config show -c configs/experiment.yaml --changed   (only what is not the default)\n\n"
        "hermes-lab config show -c configs/train/grpo.yaml -c parent=sft\n\n"
        "hermes-lab config show --kind home   (what a chat uses: config.yaml of the Hermes home, then -c)",
    )(show)
    group.command(
        "docs",
        help="Print every field with its type, default, unit and meaning.\n\n"
        "hermes-lab config docs\n\n"
        "hermes-lab config docs model.sampling   (one section)\n\n"
        "hermes-lab config docs --kind study\n\n"
        f"hermes-lab config docs --markdown > {PAGE}",
    )(docs)
    group.command(
        "check",
        help="Check configuration files, and print every mistake and its remedy. Reads files of runs, experiments, "
        "studies, trainings and locks, and names file, line and field. Without FILES, check config.yaml of the Hermes "
        "home. Nothing is started; a suite of your own (`suite.name: module:Class`) is loaded. Exits 2 "
        "if there is a mistake.\n\n"
        "hermes-lab config check configs/run.yaml configs/experiments/flagship.yaml\n\n"
        "hermes-lab config check configs/train/sft.yaml -c data=runs/demonstrations   (with an override)",
    )(check)
    group.command(
        "init",
        help="Write config.yaml with comments into the Hermes home. `hermes-lab chat` reads it. Never overwrites one.",
    )(init)
    app.add_typer(group, name="config")


Kinds = Annotated[str, typer.Option("--kind", help=_KIND, show_default="by its fields")]


def show(
    config: options.Config = None,
    changed: Annotated[bool, typer.Option("--changed", help="Only values that are not the default.")] = False,
    kind: Kinds = "",
    json: options.Json = False,
) -> None:
    """`hermes-lab config show`."""
    from hermes_lab.config.home_file import OF_BATCHES, resolve_home
    from hermes_lab.config.masking import masked
    from hermes_lab.config.sources import resolve
    from hermes_lab.runners.config_files import home_file, is_home_file, kind_of
    from hermes_lab.training.config import Training, load_training

    chosen = _named(kind) if kind else kind_of(config or [])
    if issubclass(chosen.schema, Training):
        load_training(chosen.schema, config or [])  # refuses locked fields
    found: Resolved[Any]
    if chosen.name == "home":
        found = resolve_home(home_file(), [source for source in config or [] if not is_home_file(source)])
    else:
        found = resolve(_whole(chosen), config or [])
    content = masked(_as_written(found))
    if chosen.name == "home":
        content = {name: value for name, value in content.items() if name not in OF_BATCHES}
    if json:
        origins = dict(_origins(found))
        output.print_json({"kind": chosen.name, "config": content, "origins": origins})
        return
    for line in _yaml(content, dict(_origins(found)), only_changed=changed):
        typer.echo(line)


def docs(
    field: Annotated[str, typer.Argument(help="Only this field or section.", show_default=False)] = "",
    kind: Annotated[str, typer.Option("--kind", help=_KIND, show_default="all")] = "",
    markdown: Annotated[bool, typer.Option("--markdown", help=f"Print the page {PAGE}.")] = False,
    json: options.Json = False,
) -> None:
    """`hermes-lab config docs`."""
    from hermes_lab.runners.config_files import documented, kinds

    chosen = [_named(kind)] if kind else list(kinds().values())
    pages = {one: [_narrowed(section, field) for section in documented(one)] for one in chosen}
    pages = {one: kept for one, sections in pages.items() if (kept := [each for each in sections if each.fields])}
    if not pages:
        raise ConfigError(f"no field {field!r}; `hermes-lab config docs` lists all")
    if json:
        rows = {
            one.name: [row._asdict() for each in sections for row in each.fields] for one, sections in pages.items()
        }
        output.print_json(rows)
        return
    for line in _markdown(pages) if markdown else _text(pages):
        typer.echo(line)


def check(
    files: Annotated[
        list[Path] | None, typer.Argument(help="YAML files.", show_default="config.yaml of the Hermes home")
    ] = None,
    config: options.Config = None,
    kind: Kinds = "",
    json: options.Json = False,
) -> int:
    """`hermes-lab config check`."""
    from hermes_lab.runners.config_files import home_file, kind_of, missing_in, problems_in

    if not files:
        if kind not in ("", "home"):
            raise ConfigError(f"FILES: give the files of kind {kind}")
        files = [home_file()]
        if not files[0].exists():
            raise ConfigError(f"{files[0]}: no such file; `hermes-lab config init` writes one")
    reports, wrong = [], False
    for file in files:
        sources = [str(file), *(config or [])]
        report: dict[str, Any] = {"file": str(file), "kind": "", "problems": [], "missing": []}
        try:
            chosen = _named(kind) if kind else kind_of(sources)
            problems = sorted(problems_in(chosen, sources), key=_line)
            missing = [] if problems else missing_in(chosen, sources)
            report |= {"kind": chosen.name, "problems": [one._asdict() for one in problems], "missing": missing}
        except ConfigError as error:
            report["problems"] = [{"where": str(file), "field": "", "message": str(error)}]
        wrong = wrong or bool(report["problems"])
        reports.append(report)
    if json:
        output.print_json({"files": reports})
        return 2 if wrong else 0
    for report in reports:
        for problem in report["problems"]:
            typer.echo(problem["message"])
        left = f"; still to give with -c: {', '.join(report['missing'])}" if report["missing"] else ""
        if not report["problems"]:
            typer.echo(f"{report['file']}: ok ({report['kind']}){left}")
    return 2 if wrong else 0


def init() -> None:
    """`hermes-lab config init`."""
    import os

    from hermes_lab.config.home_template import TEMPLATE
    from hermes_lab.records import write_atomic
    from hermes_lab.runners.config_files import home_file

    path = home_file()
    if os.path.lexists(path):
        raise ConfigError(f"{path}: is there already; `hermes-lab config check` checks it")
    write_atomic(path, TEMPLATE)
    typer.echo(f"{path}: written; remove the # at the start of what you want to set, and run `hermes-lab config check`")


def _line(problem: "Problem") -> int:
    """The line of a problem; those of overrides come first."""
    line = problem.where.rpartition(":")[2]
    return int(line) if line.isdecimal() and not problem.where.startswith("override ") else 0


def _named(name: str) -> "Kind":
    from hermes_lab.runners.config_files import kinds

    every = kinds()
    if name not in every:
        raise ConfigError(f"--kind: no kind {name!r}; choose from {', '.join(every)}")
    return every[name]


def _whole(kind: "Kind") -> Any:
    """The schema to read files with: that of a lock file also has its digest."""
    from hermes_lab.training.lock import LockFile

    return LockFile if kind.name == "lock" else kind.schema


def _as_written(found: "Resolved[Any]") -> dict[str, Any]:
    """The configuration, with references to the environment instead of their values."""
    content: dict[str, Any] = found.config.model_dump(mode="json")
    for path, text in found.written.items():
        at: Any = content
        for part in path[:-1]:
            at = at[int(part) if isinstance(at, list) else part]
        at[int(path[-1]) if isinstance(at, list) else path[-1]] = text
    return content


def _origins(found: "Resolved[Any]") -> Iterator[tuple[str, str]]:
    """Each leaf that is not the default, and where it was set."""
    from hermes_lab.config.sources import origin_of

    for path in _changed(found.config):
        where = origin_of(path, found.origins)
        yield ".".join(path), "command line" if where.startswith("override ") else where


def _changed(section: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    from pydantic import BaseModel

    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from _changed(value, (*path, name))
        elif field.is_required() or value != field.get_default(call_default_factory=True):
            yield (*path, name)


def _yaml(content: dict[str, Any], origins: dict[str, str], *, only_changed: bool, at: str = "") -> Iterator[str]:
    from hermes_lab.config.fields import in_yaml

    indent = "  " * (at.count(".") + bool(at))
    for name, value in content.items():
        field = f"{at}.{name}" if at else name
        if isinstance(value, dict) and value and field not in origins:
            inner = list(_yaml(value, origins, only_changed=only_changed, at=field))
            if inner:
                yield f"{indent}{name}:"
                yield from inner
        elif field in origins or not only_changed:
            yield f"{indent}{name}: {in_yaml(value)}{f'  # {origins[field]}' if origins.get(field) else ''}"


def _narrowed(section: "SectionDoc", field: str) -> "SectionDoc":
    kept = [row for row in section.fields if not field or row.path == field or row.path.startswith(f"{field}.")]
    return section._replace(fields=tuple(kept))


def _text(pages: "dict[Kind, list[SectionDoc]]") -> Iterator[str]:
    """A table per section, with each meaning below its field."""
    import shutil
    from textwrap import wrap

    width = min(shutil.get_terminal_size().columns, 120)
    for kind, sections in pages.items():
        yield f"{kind.title} ({kind.commands})"
        for section in sections:
            yield from ("", *wrap(f"{section.path or 'top level'}: {section.meaning}", width))
            longest = max(len(row.path) for row in section.fields)
            for row in section.fields:
                yield f"  {row.path:<{longest}}  {row.default}  ({_kind(row)})"
                yield from wrap(row.meaning, width, initial_indent="      ", subsequent_indent="      ")
        yield ""


def _kind(row: "FieldDoc") -> str:
    return f"{row.type}; {row.unit}" if row.unit else row.type


def _markdown(pages: "dict[Kind, list[SectionDoc]]") -> Iterator[str]:
    yield "# Configuration"
    yield ""
    yield "Every field, as the schemas in the code declare it; this page is the output of `hermes-lab config docs"
    yield "--markdown`. A field is set in a YAML file, below its section, or with `-c section.field=value`."
    yield "`hermes-lab config show -c FILE` prints a merged configuration with the origin of each value, and"
    yield "`hermes-lab config check FILE` prints every mistake in a file."
    for kind, sections in pages.items():
        yield from ("", f"## {kind.title}", f"For `{kind.commands.replace(', ', '`, `')}`.")
        for section in sections:
            yield from ("", f"### `{section.path}`" if section.path else "### Top level", section.meaning, "")
            yield from ("| field | type | default | unit | meaning |", "|---|---|---|---|---|")
            for row in section.fields:
                name = row.path.rpartition(".")[2]
                cells = (f"`{name}`", row.type, f"`{row.default}`", row.unit, row.meaning)
                yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
