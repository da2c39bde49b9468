"""Restricts answers that a scorer passes to `eval` to plain data and arithmetic: no code runs in the harness."""

import ast
from collections.abc import Collection

FUNCTIONS = frozenset(
    {
        "sin",
        "cos",
        "tan",
        "sec",
        "csc",
        "cot",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "exp",
        "log",
        "ln",
        "sqrt",
    }
)
_LONGEST = 4000
_LARGEST_EXPONENT = 100
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitXor)


def is_data(text: str) -> bool:
    """Whether `eval` can only build lists of constants, or fail ("0 1" is not Python)."""
    tree = _parsed(text)
    if tree is None:
        return len(text) <= _LONGEST
    plain = (ast.Constant, ast.List, ast.Tuple, ast.Name, ast.Load)
    return all(isinstance(node, plain) or _is_sign(node) for node in ast.walk(tree))


def is_formula(text: str, functions: Collection[str] = FUNCTIONS) -> bool:
    """Whether the text is arithmetic over numbers, names and calls of `functions`, small enough to compute."""
    tree = _parsed(text)
    return tree is not None and _is_formula(tree, functions, powers=2)


def _is_formula(node: ast.expr, functions: Collection[str], powers: int) -> bool:
    """`powers`: how deep powers may nest."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and abs(node.value) < 1e100
    if isinstance(node, ast.Name):
        return not node.id.startswith("_")
    if isinstance(node, ast.UnaryOp):
        return _is_sign(node) and _is_formula(node.operand, functions, powers)
    if isinstance(node, ast.Call):
        known = isinstance(node.func, ast.Name) and node.func.id in functions
        return known and not node.keywords and all(_is_formula(each, functions, powers) for each in node.args)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, _OPERATORS):
        return False
    left = powers
    if isinstance(node.op, ast.Pow | ast.BitXor):
        left -= 1
        if left < 0 or not _is_small(node.right):
            return False
    return _is_formula(node.left, functions, left) and _is_formula(node.right, functions, left)


def _is_small(exponent: ast.expr) -> bool:
    """Whether all numbers are small and stay small."""
    return all(
        not isinstance(node, ast.Pow | ast.BitXor | ast.Mult)
        and not (isinstance(node, ast.Constant) and not _within(node.value))
        for node in ast.walk(exponent)
    )


def _within(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= _LARGEST_EXPONENT


def _is_sign(node: ast.AST) -> bool:
    return isinstance(node, ast.UAdd | ast.USub) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub)
    )


def _parsed(text: str) -> ast.expr | None:
    """The text as an expression; None if it is not one, which `eval` rejects too."""
    if len(text) > _LONGEST:
        return None
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
