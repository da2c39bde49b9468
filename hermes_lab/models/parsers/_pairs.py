"""Arguments as tagged name-value pairs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermes_lab.models.parsers._blocks import Block
from hermes_lab.models.parsers._values import (
    UNCARRIABLE,
    Schemas,
    Unreadable,
    can_be_carried,
    from_text,
    parameters_of,
)
from hermes_lab.types import ToolCall


@dataclass(frozen=True)
class Pairs:
    """How a format writes a call's name and pairs.

    Such formats have no escaping. Everything in a value is text up to a `value_end` followed by another pair or the end
    of the block; an unterminated value takes the rest of the reply. A value containing a `nested` call is ambiguous (it
    may also be an unclosed call followed by another), so neither is run. The `closing` of the block is required:
    without it pairs may be missing.
    """

    header: re.Pattern[str]
    key: re.Pattern[str]
    value_end: re.Pattern[str]
    ending: re.Pattern[str]
    closing: str
    nested: re.Pattern[str]
    shape: str
    own_lines: bool = False
    """Values are on their own lines; one line break before and after is not part of them."""

    def read(self, text: str, start: int, schemas: Schemas) -> Block:
        """Parses the call whose name is at `start`. Raises `Unreadable` if there is none."""
        header = self.header.match(text, start)
        if not header:
            raise Unreadable(f"it must start with {self.shape}", start)
        parameters = parameters_of(header["name"], schemas)
        arguments: dict[str, Any] = {}
        fault, at = "", header.end()
        while not (ending := self.ending.match(text, at)):
            key = self.key.match(text, at)
            if not key:
                raise Unreadable(f"a name-value pair is malformed, or {self.closing} is missing", at)
            end = self.value_end.search(text, key.end())
            if not end:
                raise Unreadable(f"the value of {key['key'].strip()!r} does not end", len(text))
            name = key["key"].strip()
            if name in arguments:
                fault = f"{name!r} occurs twice"
            elif self.nested.search(text, key.end(), end.start()):
                fault = f"the value of {name!r} contains another tool call"
            arguments[name] = self._value(text[key.end() : end.start()], name, parameters)
            at = end.end()
        if fault or not can_be_carried(text[start:at]):
            raise Unreadable(fault or UNCARRIABLE, ending.end() - len(self.closing))
        return Block([ToolCall("", header["name"], arguments)], ending.end())

    def _value(self, text: str, name: str, parameters: Mapping[str, Any]) -> Any:
        if self.own_lines:
            text = text.removeprefix("\n").removesuffix("\n")
        properties = parameters.get("properties")
        schema = properties.get(name) if isinstance(properties, Mapping) else None
        return from_text(text, schema, parameters)
