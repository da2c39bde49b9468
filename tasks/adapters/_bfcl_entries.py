"""The entries of BFCL's multi-turn categories, from the data files of bfcl-eval."""

import ast
import importlib
import inspect
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.tasks.adapters._missing import not_installed
from hermes_lab.tasks.family import Action

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
VERSION = "2026.3.23"


class Function(NamedTuple):
    """A function as BFCL documents it, with its parameters as JSON schema, and its backend."""

    name: str
    description: str
    parameters: dict[str, Any]
    backend: str

    @property
    def schema(self) -> dict[str, Any]:
        """As an OpenAI function schema."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


class Entry(NamedTuple):
    """One entry. `turns` are the user messages, "" where held-out functions are added; `raw` is for the checker."""

    id: str
    category: str
    turns: tuple[str, ...]
    functions: tuple[Function, ...]
    held_out: Mapping[int, tuple[Function, ...]]
    solution: tuple[tuple[str, ...], ...]
    raw: Mapping[str, Any]


@cache
def read_entries(category: str) -> tuple[Entry, ...]:
    """All entries of a category. Raises `ConfigError` if bfcl-eval is not installed."""
    stem = f"BFCL_v4_multi_turn_{category}.json"
    solutions = {row["id"]: row["ground_truth"] for row in _rows(stem, "possible_answer")}
    return tuple(_entry(raw, category, solutions[raw["id"]]) for raw in _rows(stem))


def _entry(raw: dict[str, Any], category: str, solution: Sequence[Sequence[str]]) -> Entry:
    functions = [function for backend in raw["involved_classes"] for function in _functions(backend)]
    missing: dict[str, list[str]] = raw.get("missed_function", {})
    held = {int(turn): tuple(f for f in functions if f.name in names) for turn, names in missing.items()}
    withheld = {name for names in missing.values() for name in names}
    return Entry(
        id=raw["id"],
        category=category,
        turns=tuple("\n".join(message["content"] for message in turn) for turn in raw["question"]),
        functions=tuple(function for function in functions if function.name not in withheld),
        held_out=held,
        solution=tuple(map(tuple, solution)),
        raw=raw,
    )


@cache
def _functions(backend: str) -> tuple[Function, ...]:
    from bfcl_eval.constants.executable_backend_config import MULTI_TURN_FUNC_DOC_FILE_MAPPING

    rows = _rows(MULTI_TURN_FUNC_DOC_FILE_MAPPING[backend], "multi_turn_func_doc")
    return tuple(
        Function(
            row["name"],
            # As BFCL does for models whose schemas cannot describe results.
            f"{row['description']} The response field has the following schema: {json.dumps(row['response'])}",
            _json_schema(row["parameters"]),
            backend,
        )
        for row in rows
    )


def _json_schema(node: dict[str, Any]) -> dict[str, Any]:
    """Translates BFCL's types (`dict`, `float`, `tuple`) to JSON schema, recursively."""
    from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI

    schema = dict(node)
    schema["type"] = GORILLA_TO_OPENAPI.get(node.get("type"), "string")
    if "properties" in node:
        schema["properties"] = {name: _json_schema(child) for name, child in node["properties"].items()}
    if isinstance(node.get("items"), dict):
        schema["items"] = _json_schema(node["items"])
    return schema


def backend_class(backend: str) -> type:
    """The Python class that implements a backend."""
    from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING

    found: type = getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[backend]), backend)
    return found


def solve(entry: Entry, turn: int) -> tuple[Action, ...]:
    """The packaged solution of a turn as tool calls with named arguments."""
    backends = {f.name: f.backend for fs in (entry.functions, *entry.held_out.values()) for f in fs}
    return tuple(_move(call, backends) for call in entry.solution[turn])


def _move(call: str, backends: Mapping[str, str]) -> Action:
    node = ast.parse(call.strip(), mode="eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError(f"no plain call: {call}")
    name = node.func.id
    names = list(inspect.signature(getattr(backend_class(backends[name]), name)).parameters)[1:]
    given = dict(zip(names, map(ast.literal_eval, node.args), strict=False))
    return Action(name, given | {str(k.arg): ast.literal_eval(k.value) for k in node.keywords})


def _rows(name: str, folder: str = "") -> list[dict[str, Any]]:
    try:
        import bfcl_eval
    except ImportError:
        raise not_installed("bfcl", "bfcl", f"bfcl-eval=={VERSION}") from None
    path = Path(bfcl_eval.__file__).parent / "data" / folder / name
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]
