"""Loads a configuration from YAML files and `key=value` overrides, merged left to right and validated."""

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hermes_lab.config.applies import ignored_fields
from hermes_lab.config.files import is_text, not_text, read_file
from hermes_lab.config.masking import HIDDEN, as_written, is_secret
from hermes_lab.config.paths import RULE, Origin, PathField, PathResolver, Problem
from hermes_lab.config.schema import RunConfig
from hermes_lab.config.section import Section
from hermes_lab.config.yaml_files import Document, NotYaml, Plain, read_yaml, unquoted
from hermes_lab.configs import find_config
from hermes_lab.errors import ConfigError
from hermes_lab.text.suggest import did_you_mean

S = TypeVar("S", bound=Section)

_OVERRIDE = re.compile(r"(?P<key>[A-Za-z_][\w.]*)=(?P<value>.*)", re.DOTALL)
_NULLS = frozenset({"null", "Null", "NULL"})
_FEW = 4
"""Fields of other sections that an error message suggests, at most."""
_At = tuple[str, ...]
_Given = str | Mapping[str, Any]
"""A YAML file, an `a.b=value` override, or a mapping of fields."""


def load_config(sources: Sequence[_Given], base: dict[str, Any] | None = None) -> RunConfig:
    """Merges YAML files, `a.b=value` overrides and mappings, left to right, over the dumped configuration `base`.

    Values of overrides are parsed as YAML, those of string fields taken literally, apart from `null`. A mapping means
    what the same content means in a file. Paths in a file are relative to that file. Raises `ConfigError` with the file
    and line, or the override, that contains the mistake.
    """
    return load_section(RunConfig, sources, base)


def load_section(schema: type[S], sources: Sequence[_Given], base: dict[str, Any] | None = None) -> S:
    """As `load_config`, for any schema."""
    return resolve(schema, sources, base).config


class Resolved(NamedTuple, Generic[S]):
    """A configuration, and where each of its fields was set. `written`: the texts with references to the environment,
    as they were before these were replaced; `references` has them by their values."""

    config: S
    origins: Mapping[tuple[str, ...], Origin]
    written: Mapping[tuple[str, ...], str] = {}
    references: Mapping[str, str] = {}


def resolve(schema: type[S], sources: Sequence[_Given], base: dict[str, Any] | None = None) -> Resolved[S]:
    """As `load_section`, with the origins of the fields."""
    merged = Merged(schema, base)
    for source in sources:
        merged.add(source)
    return validated(schema, merged)


def validated(schema: type[S], merged: "Merged") -> Resolved[S]:
    """The configuration that the merged sources give. Raises `ConfigError` for the first mistake."""
    merged.resolve_paths()
    try:
        config = schema.model_validate(merged.values)
    except ValidationError as error:
        raise ConfigError(_one_line(schema, error, merged)) from None
    for problem in merged.paths.problems.values():
        raise ConfigError(problem.message)
    for problem in ignored_fields(config, merged.origins) if isinstance(config, RunConfig) else ():
        raise ConfigError(merged.shown(problem).message)
    return Resolved(config, merged.origins, merged.written, merged.references)


def read_values(schema: type[Section], sources: Sequence[str]) -> dict[str, Any]:
    """The fields set by the sources, merged and with resolved paths, but not validated."""
    merged = Merged(schema, None)
    for source in sources:
        merged.add(source)
    merged.resolve_paths()
    return merged.values


def absolute_paths(schema: type[Section], content: Mapping[str, Any]) -> dict[str, Any]:
    """`content` with absolute paths, so that it can be written to a file anywhere."""
    here, paths = Origin(0, 0, "", str(Path.cwd())), PathResolver()

    def absolute(value: Any, kind: _Type, at: _At) -> Any:
        return _resolve(paths, value, kind, ".".join(at), here)

    return {name: _each(value, _field_type(schema, name), (name,), absolute) for name, value in content.items()}


class Merged:
    """The merged sources so far, and where each field was set.

    `written` has the texts with references to the environment, by field; `references` has them by the values that
    replaced them. Messages show the texts.
    """

    def __init__(self, schema: type[Section], base: dict[str, Any] | None) -> None:
        self.values: dict[str, Any] = copy.deepcopy(base or {})
        self.origins: dict[_At, Origin] = {}
        self.paths = PathResolver()
        self.written: dict[_At, str] = {}
        self.references: dict[str, str] = {}
        self._schema = schema
        self._sources = 0

    def add(self, source: _Given) -> None:
        """Merges one more source."""
        if isinstance(source, Mapping):
            self.add_mapping(source)
        elif override := _OVERRIDE.fullmatch(source):
            self._add_override(override["key"], override["value"])
        else:
            path = find_config(Path(source))
            self.add_document(path, read_file(path))

    def resolve_paths(self) -> None:
        """Makes all paths relative to the working directory. `paths` collects those that do not exist."""
        for name, value in self.values.items():
            self.values[name] = _each(value, _field_type(self._schema, name), (name,), self._resolved)

    def shown(self, problem: Problem) -> Problem:
        """The problem, without values of the environment in its message."""
        said = f"{problem.where}: {problem.field}: "
        said = said if problem.message.startswith(said) else problem.where
        rest = problem.message.removeprefix(said)
        return problem._replace(message=problem.message.removesuffix(rest) + as_written(rest, self.references))

    def _resolved(self, value: Any, kind: "_Type", at: _At) -> Any:
        if kind.path is None or not isinstance(value, str):
            return value
        origin = next((self.origins[at[:n]] for n in range(len(at), 0, -1) if at[:n] in self.origins), None)
        if origin is None:  # from the base, where paths are relative to the working directory already
            return value
        field = ".".join(part for part in at if not part.isdecimal())
        known = field in self.paths.problems
        path = _resolve(self.paths, value, kind._replace(path=self._path_kind(kind.path, at)), field, origin)
        if at in self.written and field in self.paths.problems and not known:
            message = f"{origin.where}: {field}: no such file or folder: {self.written[at]} ({RULE})"
            self.paths.problems[field] = Problem(origin.where, field, message)
        return path

    def _path_kind(self, kind: str, at: _At) -> str | None:
        """The path kind of a field; that of `model.name` depends on the provider."""
        if kind != "model":
            return kind
        section: Any = self.values
        for part in at[:-1]:
            section = section[part]
        return {"vllm": "named", "replay": "input"}.get(section.get("provider"))

    def _add_override(self, key: str, value: str) -> None:
        path = tuple(key.split("."))
        if not is_text(value):
            raise ConfigError(f"override {key}: its value is not UTF-8 text")
        self._set(path, _override_value(self._schema, path, value), value)
        self._sources += 1

    def add_mapping(self, fields: Mapping[str, Any]) -> None:
        """Merges fields, in sections or with dots in their names. Paths are relative to the working directory."""
        for path, value in _fields_in(self._schema, fields):
            if (found := not_text(value, path)) is not None:
                raise ConfigError(f"{'.'.join(found[0])}: contains {found[1]}; use plain UTF-8 text")
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_written)
            self._set(path, _coerced(value, self._schema, path), shown)
        self._sources += 1

    def _set(self, path: _At, value: Any, written: str) -> None:
        """Merges the value of one field, `written` so by the user."""
        nested, key = value, ".".join(path)
        for part in reversed(path):
            nested = {part: nested}
        origin = Origin(self._sources, self._sources, f"override {key}={_shown(key, written)}", None)
        self._merge(self.values, nested, (), lambda at: origin if len(at) >= len(path) else None)
        for depth in range(1, len(path)):
            self.origins.setdefault(path[:depth], origin)

    def add_document(self, path: Path, document: Document) -> None:
        """Merges what `read_file` has read from the file `path`."""
        lines = document.lines
        content = {name: _coerced(value, self._schema, (name,)) for name, value in document.content.items()}
        folder = "" if path.parent == Path() else str(path.parent)

        def origin(at: _At) -> Origin | None:
            return Origin(self._sources, self._sources, f"{path}:{lines[at]}", folder) if at in lines else None

        self._merge(self.values, content, (), origin)
        self._sources += 1

    def _merge(
        self, base: dict[str, Any], new: dict[str, Any], at: _At, origin_of: Callable[[_At], Origin | None]
    ) -> None:
        for key, value in new.items():
            inner = (*at, key)
            if isinstance(value, dict) and isinstance(base.get(key), dict):
                if origin := origin_of(inner):
                    self.origins[inner] = origin
                self._merge(base[key], value, inner, origin_of)
                continue
            same = key in base and base[key] == value
            before = self.origins.get(inner)
            for gone in [path for path in self.origins if path[: len(inner)] == inner]:
                del self.origins[gone]
            base[key] = value
            self._note(value, inner, origin_of)
            if same and inner in self.origins:
                changed = before.changed if before else -1
                self.origins[inner] = self.origins[inner]._replace(changed=changed)

    def _note(self, value: Any, at: _At, origin_of: Callable[[_At], Origin | None]) -> None:
        if origin := origin_of(at):
            self.origins[at] = origin
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, each in inner:
            self._note(each, (*at, str(key)), origin_of)


class _Type(NamedTuple):
    """The type of a field: its annotation and its path kind, if any."""

    annotation: Any = Any
    path: str | None = None

    @property
    def arms(self) -> tuple[Any, ...]:
        """The annotation, or the members of a union."""
        found = get_args(self.annotation) if get_origin(self.annotation) in (Union, UnionType) else (self.annotation,)
        return tuple(_bare(arm).annotation for arm in found)

    @property
    def is_text(self) -> bool:
        """Whether it accepts only strings (and perhaps null)."""
        arms = [arm for arm in self.arms if arm is not type(None)]
        return all(arm is str or _is_words(arm) for arm in arms)

    def inner(self, key: str) -> "_Type":
        """The type of a mapping's value or a list's item."""
        for arm in self.arms:
            if isinstance(arm, type) and issubclass(arm, BaseModel):
                return _field_type(arm, key)
            origin, args = get_origin(arm), get_args(arm)
            if origin is dict:
                return _bare(args[1])
            if origin is list or (origin is tuple and args[-1] is Ellipsis):
                return _bare(args[0])
            if origin is tuple:
                return _bare(args[int(key)]) if key.isdecimal() and int(key) < len(args) else _Type()
        return _Type()


def _is_words(arm: Any) -> bool:
    return get_origin(arm) is Literal and all(isinstance(word, str) for word in get_args(arm))


def _bare(annotation: Any) -> _Type:
    if get_origin(annotation) is not Annotated:
        return _Type(annotation)
    annotation, *marks = get_args(annotation)
    return _Type(annotation, next((mark.kind for mark in marks if isinstance(mark, PathField)), None))


def _field_type(schema: type[BaseModel], name: str) -> _Type:
    if name not in schema.model_fields:
        return _Type()
    field = schema.model_fields[name]
    return _Type(field.annotation, next((mark.kind for mark in field.metadata if isinstance(mark, PathField)), None))


def _each(value: Any, kind: _Type, at: _At, change: Callable[[Any, _Type, _At], Any]) -> Any:
    """`value` with `change` applied to every leaf that is not a mapping or list."""
    if isinstance(value, dict):
        return {key: _each(each, kind.inner(str(key)), (*at, str(key)), change) for key, each in value.items()}
    if isinstance(value, list):
        return [_each(each, kind.inner(str(n)), (*at, str(n)), change) for n, each in enumerate(value)]
    return change(value, kind, at)


def _coerced(value: Any, schema: type[BaseModel], path: _At) -> Any:
    """`value` as the field at `path` expects it: string fields get plain scalars as written."""
    return _each(value, _type_at(schema, path), (), _plain)


def _plain(value: Any, kind: _Type, at: _At) -> Any:
    del at
    if not isinstance(value, Plain):
        return value
    return value.text if kind.is_text or (value.referenced and kind.annotation is Any) else value.value


def _type_at(schema: type[BaseModel], path: _At) -> _Type:
    kind = _Type(schema)
    for part in path:
        kind = kind.inner(part)
    return kind


def _fields_in(schema: type[BaseModel], fields: Mapping[str, Any], at: _At = ()) -> Iterator[tuple[_At, Any]]:
    """The fields of a mapping, with values as `read_yaml` gives them. Keys inside a value may contain dots."""
    for name, value in fields.items():
        path = (*at, *str(name).split("."))
        arms = _type_at(schema, path).arms
        is_section = any(isinstance(arm, type) and issubclass(arm, BaseModel) for arm in arms)
        if isinstance(value, Mapping) and value and is_section:
            yield from _fields_in(schema, value, path)
        else:
            yield path, _as_read(value)


def _as_read(value: Any) -> Any:
    """A Python value as `read_yaml` gives it."""
    if isinstance(value, Mapping):
        return {str(key): _as_read(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_read(each) for each in value]
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, bool) and isinstance(value, Real):  # also those of NumPy
        value = int(value) if isinstance(value, Integral) else float(value)
    return Plain(json.dumps(value), value) if isinstance(value, bool | int | float) else str(value)


def _written(value: Plain) -> Any:
    return value.value


def _override_value(schema: type[BaseModel], path: _At, value: str) -> Any:
    kind = _type_at(schema, path)
    if kind.is_text:
        # In a path, `~` is the home directory.
        is_null = value.strip() in _NULLS or (value.strip() == "~" and kind.path is None)
        return None if is_null else unquoted(value)
    try:
        return _coerced(read_yaml(value).content, schema, path) if value else ""
    except NotYaml:
        return value


def _resolve(paths: PathResolver, value: Any, kind: _Type, field: str, origin: Origin) -> Any:
    if kind.path is None or not isinstance(value, str):
        return value
    if kind.path == "source":
        return _resolve_source(paths, value, field, origin)
    # The provider may be set in another source, so a name counts as a path if it exists as one.
    return paths.resolve(value, "named" if kind.path == "model" else kind.path, field, origin)


def _resolve_source(paths: PathResolver, source: str, field: str, origin: Origin) -> str:
    """Resolves a source given inside a file: its paths are relative to that file."""
    override = _OVERRIDE.fullmatch(source)
    if not override:
        return paths.resolve(source, "input", field, origin)
    path = tuple(override["key"].split("."))

    def resolved(value: Any, kind: _Type, at: _At) -> Any:
        return _resolve(paths, value, kind, ".".join((field, *path, *at)), origin)

    value = _override_value(RunConfig, path, override["value"])
    found = _each(value, _type_at(RunConfig, path), (), resolved)
    if found == value:
        return source
    text = found if isinstance(found, str) and found[:1] not in ("'", '"') else json.dumps(found, ensure_ascii=False)
    return f"{override['key']}={text}"


_MESSAGES = {
    "missing": "is required",
    "string_type": "must be text",
    "too_short": "needs at least one item",
    "tuple_type": "must be a list, such as [a, b]",
    "dict_type": "must be a mapping of `name: value`",
    "model_type": "is a section: set its fields",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "int_parsing": "must be an integer",
    "int_from_float": "must be an integer",
    "int_type": "must be an integer",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
}
"""Messages by pydantic error type, where pydantic's own would mention Python types."""


def _shown(key: str, value: str) -> str:
    """An override's value as shown in a message; possible secrets are hidden."""
    return HIDDEN if is_secret(tuple(key.split("."))) else value


def _one_line(schema: type[Section], error: ValidationError, merged: Merged) -> str:
    first, *others = problems_of(schema, error, merged)
    names = [other.field for other in others]
    more = f" (also invalid: {', '.join(names[:5])}{', ...' * (len(names) > 5)})" if names else ""
    return first.message if first.field in merged.paths.problems else f"{first.message}{more}"


def problems_of(schema: type[Section], error: ValidationError, merged: Merged) -> list[Problem]:
    """All mistakes that pydantic found, with where they were written."""
    return [_problem(schema, one, merged) for one in error.errors()]


def _problem(schema: type[Section], error: ErrorDetails, merged: Merged) -> Problem:
    location = tuple(str(part) for part in error["loc"])
    field = ".".join(location)
    if field in merged.paths.problems:
        return merged.paths.problems[field]
    where = origin_of(location, merged.origins)
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        known = _fields(schema, location[:-1])
        elsewhere = _paths_of(schema, location[-1], location[:-1])
        meant = f"; did you mean {' or '.join(elsewhere)}?" if elsewhere else did_you_mean(location[-1], known)
        message = f"unknown field; valid fields: {', '.join(known)}{meant}"
    elif error["type"] == "literal_error":
        message = f"must be {error['ctx']['expected']}"
    message = _MESSAGES.get(error["type"], message)
    problem = Problem(where, field, ": ".join(filter(None, (where, field, message))))
    # pydantic's own messages have limits, which may look like a value, but no values.
    return merged.shown(problem) if error["type"] == "value_error" else problem


def origin_of(path: _At, origins: Mapping[_At, Origin]) -> str:
    """Where a field, or the section or mapping around it, was set; "" if nowhere."""
    return next((origins[path[:n]].where for n in range(len(path), 0, -1) if path[:n] in origins), "")


def _paths_of(schema: type[BaseModel], name: str, near: _At) -> list[str]:
    """The fields called `name` in other sections: those below the section `near`, or else anywhere. If there are many,
    those least deep, unless these are many, too."""
    found = [path for path in _all_fields(_Type(schema)) if path[-1] == name]
    below = [path for path in found if path[: len(near)] == near]
    chosen = below or found
    if len(chosen) > _FEW:
        least = min(map(len, chosen))
        chosen = [path for path in chosen if len(path) == least]
    return [".".join(path) for path in chosen] if len(chosen) <= _FEW else []


def _all_fields(kind: _Type, at: _At = ()) -> Iterator[_At]:
    for arm in kind.arms:
        if isinstance(arm, type) and issubclass(arm, BaseModel):
            for name in arm.model_fields:
                yield (*at, name)
                yield from _all_fields(_field_type(arm, name), (*at, name))


def _fields(schema: type[BaseModel], at: _At) -> list[str]:
    """The field names of a section."""
    arms = _type_at(schema, at).arms
    return [name for arm in arms if isinstance(arm, type) and issubclass(arm, BaseModel) for name in arm.model_fields]
