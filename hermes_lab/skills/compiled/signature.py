"""Parses the function of a compiled skill without running it."""

import ast
import inspect
import keyword
import re
import sys
from typing import Any, NamedTuple

from pydantic import BaseModel

from hermes_lab.errors import ToolError

_TYPES: dict[str, Any] = {kind.__name__: kind for kind in (str, int, float, bool, list, dict)}
_TYPES |= {"Any": Any, "None": None}
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_MAX_NAME = 64


class Function(NamedTuple):
    """A documented, typed function. `shown` is its `def` line."""

    name: str
    doc: str
    signature: inspect.Signature
    shown: str


def check_function_name(name: str) -> None:
    """Raises `ToolError` if `name` is not valid for a compiled skill."""
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME or keyword.iskeyword(name):
        raise ToolError(f"name: {name!r} must be 1-{_MAX_NAME} lowercase letters, digits and single underscores")
    if name in sys.stdlib_module_names or name.startswith("test_"):
        raise ToolError(f"name: {name!r} is the name of a Python module or of a test; choose another name")


def read_function(source: str, name: str) -> Function:
    """Parses the top-level function `name`. Raises `ToolError` saying what to fix if it cannot become a tool."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ToolError(f"code: {_syntax_error(error)}") from None
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    if not found:
        raise ToolError(f"code: must define the function {name} at the top level (`def`, not `async def`)")
    node = found[-1]
    if not (doc := ast.get_docstring(node)):
        raise ToolError(f"code: {name} has no docstring; describe what it does, and each argument under `Args:`")
    given = node.args
    if given.vararg or given.kwarg or given.posonlyargs:
        raise ToolError(f"code: {name} takes *args, **kwargs or positional-only arguments; name every argument")
    defaults: list[ast.expr | None] = [*[None] * (len(given.args) - len(given.defaults)), *given.defaults]
    pairs = [*zip(given.args, defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    parameters = [_parameter(argument, default) for argument, default in pairs]
    shown = f"def {name}({ast.unparse(given)})" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")
    return Function(name, doc, inspect.Signature(parameters), shown)


def _parameter(argument: ast.arg, default: ast.expr | None) -> inspect.Parameter:
    name = argument.arg
    if name.startswith("_") or name.startswith("model_") or hasattr(BaseModel, name):
        raise ToolError(f"code: an argument cannot be named {name!r}; choose another name")
    if argument.annotation is None:
        raise ToolError(f"code: argument {name} has no type; give one of {', '.join(_TYPES)}")
    value: Any = inspect.Parameter.empty
    if default is not None:
        try:
            value = ast.literal_eval(default)
        except (ValueError, TypeError, MemoryError, RecursionError):
            raise ToolError(f"code: the default of argument {name} is not a literal") from None
    kind = _type(argument.annotation, name)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=kind)


def _type(node: ast.expr, argument: str) -> Any:
    """Evaluates an annotation such as `list[dict[str, float]]` or `int | None`, also if quoted or from `typing`."""
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=str(text)):
            try:
                return _type(ast.parse(text, mode="eval").body, argument)
            except SyntaxError:
                pass
        case ast.Name(id=name) | ast.Attribute(attr=name) if name.lower() in _TYPES or name in _TYPES:
            return _TYPES[name if name in _TYPES else name.lower()]  # typing.List and typing.Dict
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _type(left, argument) | _type(right, argument)
        case ast.Subscript(value=ast.Name(id="Optional") | ast.Attribute(attr="Optional"), slice=inner):
            return _type(inner, argument) | None
        case ast.Subscript(value=outer, slice=inner) if (kind := _type(outer, argument)) in (list, dict):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            if len(parts) == (1 if kind is list else 2):
                return kind[tuple(_type(part, argument) for part in parts)]
    raise ToolError(
        f"code: argument {argument} has the unsupported type {ast.unparse(node)}; use {', '.join(_TYPES)}, "
        "or types made of them, such as list[dict[str, Any]] or int | None"
    )


def _syntax_error(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    return str(error) or type(error).__name__
