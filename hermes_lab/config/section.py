"""The base of all configuration sections."""

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

_LARGEST = 2**63 - 1
_NUMBERS = (int, float, bool)
_MUST = {int: "an integer", float: "a number", bool: "true or false"}


class Section(BaseModel):
    """Frozen. An unknown field is an error, so that a typo cannot fall back to a default.

    Numbers and booleans are strict: `true`, `1.0` and `"1"` are no integers, `1` is not true. An integer is a number.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, coerce_numbers_to_str=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _strict(cls, value: Any, info: ValidationInfo) -> Any:
        for found, kinds in _scalars(value, cls.model_fields[info.field_name or ""].annotation):
            if isinstance(found, int) and not isinstance(found, bool) and bool not in kinds and abs(found) > _LARGEST:
                raise PydanticCustomError("too_large", "must be at most 9223372036854775807 in size")
            if not any(_fits(found, kind) for kind in kinds):
                wanted = " or ".join(text for kind, text in _MUST.items() if kind in kinds)
                raise PydanticCustomError("not_strict", "must be {wanted}", {"wanted": wanted})
        return value


def _scalars(value: Any, annotation: Any) -> Iterator[tuple[Any, tuple[type, ...]]]:
    """The scalars of a value whose type is a number or a boolean and nothing else, with the types that are allowed."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    arms = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    arms = tuple(get_args(arm)[0] if get_origin(arm) is Annotated else arm for arm in arms)
    if isinstance(value, dict | list | tuple):
        for arm in arms:
            inner = get_args(arm)
            if get_origin(arm) is dict and isinstance(value, dict):
                for each in value.values():
                    yield from _scalars(each, inner[1])
            elif get_origin(arm) in (tuple, list) and not isinstance(value, dict):
                for number, each in enumerate(value):
                    kind = inner[0] if inner[-1] is Ellipsis else inner[min(number, len(inner) - 1)]
                    yield from _scalars(each, kind)
    elif value is not None and all(arm in (*_NUMBERS, NoneType) for arm in arms):
        yield value, arms


def _fits(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is kind
