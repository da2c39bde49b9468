"""The declaration of a server's tool: its name for the model, its schema, and its digest; or why it is left out."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import model_validator

from hermes_lab.mcp.schemas import LARGEST, UnusableSchemaError, checkable, texts, usable
from hermes_lab.memory.scan import refusal, scan
from hermes_lab.tools.schema import Arguments
from hermes_lab.tools.toolsets import SEPARATOR

_LONGEST = 64  # the limit of OpenAI and Anthropic
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


class Declared(NamedTuple):
    """A tool as the model sees it. `own_name` is the server's; `digest` covers all that the server says of it."""

    name: str
    own_name: str
    description: str
    parameters: dict[str, Any]
    arguments: type[Arguments]
    read_only: bool
    digest: str

    @property
    def schema(self) -> dict[str, Any]:
        """The OpenAI function schema."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


def digest_of(tool: Mapping[str, Any]) -> str:
    """The sha256 of a tool as listed, without metadata such as its title."""
    said = {name: tool.get(name) for name in ("name", "description", "inputSchema", "outputSchema")}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode(errors="replace")).hexdigest()


def declare(server: str, tool: Mapping[str, Any]) -> Declared | str:
    """The declaration of a tool as listed by `tools/list`, or the reason why it cannot be offered.

    Left out are tools whose schema no provider accepts (one would refuse every request), and those whose texts attack
    the agent that reads them.
    """
    own, description = tool["name"], tool.get("description") or ""
    if not own.strip():
        return "it has no name"
    if not isinstance(description, str):
        return "its description is not text"
    if len(json.dumps(tool)) > LARGEST:
        return f"its declaration is longer than {LARGEST} characters"
    try:
        parameters = usable(tool.get("inputSchema"))
    except UnusableSchemaError as error:
        return f"its schema {error}"
    for said in dict.fromkeys((own, description, *texts(parameters))):
        if findings := scan(said):
            return f"its description attacks the agent: {refusal(findings)}"
    annotations = tool.get("annotations") or {}
    read_only = isinstance(annotations, Mapping) and annotations.get("readOnlyHint") is True
    arguments = arguments_of(parameters)
    return Declared(_name(server, own), own, description, parameters, arguments, read_only, digest_of(tool))


def _name(server: str, own: str) -> str:
    name = f"{server}{SEPARATOR}{_OTHER.sub('_', own)}"
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 7]}_{hashlib.sha256(own.encode(errors='replace')).hexdigest()[:6]}"


def arguments_of(parameters: dict[str, Any]) -> type[Arguments]:
    """Arguments that the tool's own schema judges. A null that it does not allow means that the argument was left
    out."""
    from jsonschema import Draft202012Validator as Validator
    from jsonschema.exceptions import best_match

    parameters = checkable(parameters)
    whole = Validator(parameters)
    required = parameters.get("required", ())
    allow_null = {name: Validator(each).is_valid(None) for name, each in parameters.get("properties", {}).items()}

    class Given(Arguments):
        model_config = Arguments.model_config | {"extra": "allow"}

        @classmethod
        def _is_noise(cls, name: str, value: Any) -> bool:
            return value is None and name not in required and not allow_null.get(name, True)

        @model_validator(mode="after")
        def _fits(self) -> "Given":
            if error := best_match(whole.iter_errors(self.passed())):
                where = ".".join(map(str, error.absolute_path))
                raise ValueError(f"{f'{where}: ' if where else ''}{error.message[:500]}")
            return self

    return Given
