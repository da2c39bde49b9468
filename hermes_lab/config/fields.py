"""The fields of a configuration schema, as its code declares them: type, default, unit and meaning."""

from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import yaml
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hermes_lab.config.paths import PathField
from hermes_lab.config.units import Unit

REQUIRED = "required"


class FieldDoc(NamedTuple):
    """One field. `default` is as in a YAML file, or `required`."""

    path: str
    type: str
    default: str
    unit: str
    meaning: str


class SectionDoc(NamedTuple):
    """A section, "" being the top level, and its own fields."""

    path: str
    meaning: str
    fields: tuple[FieldDoc, ...]


def sections_of(schema: type[BaseModel], path: str = "") -> Iterator[SectionDoc]:
    """The sections of a schema, depth first; those without fields of their own are left out."""
    inner: list[tuple[str, type[BaseModel]]] = []
    named: list[tuple[str, type[BaseModel]]] = []
    rows = []
    for name, field in schema.model_fields.items():
        where = f"{path}.{name}" if path else name
        if many := _section_of_each(field.annotation):
            named.append((f"{where}.{'NAME' if get_origin(field.annotation) is dict else 'NUMBER'}", many))
        elif section := _section(field.annotation):
            inner.append((where, section))
            if type(None) not in get_args(field.annotation):
                continue
        rows.append(_row(where, field, _section(field.annotation)))
    if rows:
        yield SectionDoc(path, " ".join((schema.__doc__ or "").split()), tuple(rows))
    seen = {kind for where, kind in inner if not _is_optional(schema, where)}
    for where, section in inner:
        if _is_optional(schema, where) and section in seen:  # such as `auxiliary`, a second model
            continue
        yield from sections_of(section, where)
    for where, section in named:
        yield from sections_of(section, where)


def in_yaml(value: Any) -> str:
    """A value on one line, as a configuration file has it."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**9, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _is_optional(schema: type[BaseModel], where: str) -> bool:
    return type(None) in get_args(schema.model_fields[where.rpartition(".")[2]].annotation)


def _row(where: str, field: FieldInfo, section: type[BaseModel] | None) -> FieldDoc:
    default = REQUIRED if field.is_required() else _shown(field.get_default(call_default_factory=True))
    marks = [*field.metadata, *_marks(field.annotation)]
    unit = next((mark.name for mark in marks if isinstance(mark, Unit)), "")
    kind = (
        f"section ({section.__name__.removesuffix('Config')}), or null" if section else _type(field.annotation, marks)
    )
    return FieldDoc(where, kind, default, unit, " ".join((field.description or "").split()))


def _shown(value: Any) -> str:
    """A default as a reader would write it; our YAML reader needs no quotes around `off`."""
    if isinstance(value, str):
        return value or '""'
    return f"[{', '.join(map(_shown, value))}]" if isinstance(value, tuple) else in_yaml(value)


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 1_000_000 else f"{value:g}"


def _section(annotation: Any) -> type[BaseModel] | None:
    arms = get_args(annotation) if _is_union(annotation) else (annotation,)
    return next((arm for arm in arms if isinstance(arm, type) and issubclass(arm, BaseModel)), None)


def _section_of_each(annotation: Any) -> type[BaseModel] | None:
    """The section that a mapping of names has for each, or that each item of a list is."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (tuple, list):
        return _section(args[0])
    return _section(args[1]) if origin is dict else None


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType)


def _marks(annotation: Any) -> Iterator[Any]:
    """What `Annotated` attaches to a type, or to a member of a union. pydantic moves the outermost to the field."""
    if get_origin(annotation) is Annotated:
        inner, *marks = get_args(annotation)
        for mark in marks:
            yield from mark.metadata if isinstance(mark, FieldInfo) else (mark,)
        yield from _marks(inner)
    elif _is_union(annotation):
        for arm in get_args(annotation):
            yield from _marks(arm)


def _type(annotation: Any, marks: list[Any]) -> str:
    """The type in words: `integer >= 1`, `off | on`, `list of paths`."""
    if _is_union(annotation):
        arms = [_type(arm, marks) for arm in get_args(annotation) if arm is not type(None)]
        return ", ".join([*arms, *["or null"] * (type(None) in get_args(annotation))])
    if get_origin(annotation) is Annotated:
        inner = get_args(annotation)[0]
        return _type(inner, [*marks, *_marks(annotation)])
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " | ".join(map(_shown, args))
    if origin is tuple and args[-1] is not Ellipsis:
        return f"list of {len(args)}: {_type(args[0], [])}"
    if origin in (tuple, list):
        return f"list of {'sections' if _section(args[0]) else _type(args[0], [])}"
    if origin is dict:
        return f"mapping of names to {'sections' if _section(args[1]) else _type(args[1], [])}"
    if annotation is str:
        return next((_PATHS[mark.kind] for mark in marks if isinstance(mark, PathField)), "text")
    return _NAMES.get(annotation, "anything") + _limits(marks)


_PATHS = {
    "input": "path",
    "output": "path",
    "named": "name or path",
    "model": "text",
    "library": "path",
    "source": "YAML file or key=value",
}
_NAMES = {int: "integer", float: "number", bool: "true | false"}


def _limits(marks: list[Any]) -> str:
    found = [
        (sign, value)
        for mark in marks
        for kind, sign, value in (
            (Ge, ">=", getattr(mark, "ge", None)),
            (Gt, ">", getattr(mark, "gt", None)),
            (Le, "<=", getattr(mark, "le", None)),
            (Lt, "<", getattr(mark, "lt", None)),
        )
        if isinstance(mark, kind)
    ]
    return " " + ", ".join(f"{sign} {_number(value)}" for sign, value in dict.fromkeys(found)) if found else ""
