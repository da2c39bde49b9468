"""Mutants of a function. Each is one small edit of the source, located with the syntax tree."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

_COMPARED = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")} | {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_COMPUTED = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "/")} | {
    ast.Mod: ("%", "//"),
    ast.Div: ("/", "*"),
}
_JOINED = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
_TWINS = ("min max", "any all", "isupper islower", "upper lower", "startswith endswith", "sorted list", "set list")
_NAMED = dict(map(str.split, _TWINS)) | {other: one for one, other in map(str.split, _TWINS)}


class Edit(NamedTuple):
    """Replaces `old` at an offset of the source with `new`."""

    at: int
    old: str
    new: str

    def made(self, text: str) -> str:
        """The edited source."""
        return text[: self.at] + self.new + text[self.at + len(self.old) :]


def edits(source: str, since: int) -> tuple[Edit, ...]:
    """All possible edits from line `since` (1-based) on, in source order."""
    if not source.isascii():  # the tree's offsets are in bytes
        return ()
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    tree = ast.parse(source)
    formatted = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for inner in ast.walk(node)}
    nodes = [node for node in ast.walk(tree) if getattr(node, "lineno", 0) >= since and id(node) not in formatted]
    found = {edit for node in nodes for edit in _edits_of(node, source, lines)}
    return tuple(sorted(found))


def _edits_of(node: ast.AST, source: str, lines: list[int]) -> Iterator[Edit]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _between(node.left, node.comparators[0], _COMPARED.get(type(node.ops[0])), source, lines)
    elif isinstance(node, ast.BinOp):
        yield from _between(node.left, node.right, _COMPUTED.get(type(node.op)), source, lines)
    elif isinstance(node, ast.BoolOp):
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from _between(left, right, _JOINED.get(type(node.op)), source, lines)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        start, end = _span(node, lines)
        new = str(not node.value) if isinstance(node.value, bool) else str(node.value + 1)
        yield Edit(start, source[start:end], new)
    elif isinstance(node, ast.Name) and node.id in _NAMED:
        yield Edit(_span(node, lines)[0], node.id, _NAMED[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in _NAMED:
        yield Edit(_span(node, lines)[1] - len(node.attr), node.attr, _NAMED[node.attr])


def _between(
    left: ast.AST, right: ast.AST, swap: tuple[str, str] | None, source: str, lines: list[int]
) -> Iterator[Edit]:
    """The edit that swaps the operator between two operands. Only brackets and blanks may surround it."""
    start, end = _span(left, lines)[1], _span(right, lines)[0]
    if swap and (match := re.fullmatch(rf"[\s)]*({re.escape(swap[0])})[\s(]*", source[start:end])):
        yield Edit(start + match.start(1), *swap)


def _span(node: ast.AST, lines: list[int]) -> tuple[int, int]:
    index = [getattr(node, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")]
    return lines[index[0] - 1] + index[1], lines[index[2] - 1] + index[3]
