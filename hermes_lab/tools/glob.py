"""Translates file name globs to POSIX extended regular expressions, for `find -regex`."""

_SPECIAL = frozenset("\\.[{()*+?^$|")


def regex(glob: str) -> str:
    """Returns a regex that matches paths relative to a folder.

    `*` and `?` do not match a slash, `**/` matches any number of folders, `{a,b}` either alternative, and `[ab]` and
    `[!ab]` one character. A glob without a slash matches file names in any folder.
    """
    glob = glob.removeprefix("./").removeprefix("/")
    return _translated(glob if "/" in glob else f"**/{glob}")


def literal(text: str) -> str:
    """Escapes `text`."""
    return "".join(f"\\{c}" if c in _SPECIAL else c for c in text)


def _translated(glob: str) -> str:
    parts: list[str] = []
    at, depth = 0, 0
    while at < len(glob):
        char, rest = glob[at], glob[at:]
        length = 1
        if rest.startswith("**/"):
            part, length = "(.*/)?", 3
        elif rest.startswith("**"):
            part, length = ".*", 2
        elif char == "*":
            part = "[^/]*"
        elif char == "?":
            part = "[^/]"
        elif char == "[" and (end := _bracket_end(rest)):
            part, length = _bracket(rest[1:end]), end + 1
        elif char == "{" and "," in rest.partition("}")[0] and "}" in rest:
            part, depth = "(", depth + 1
        elif char == "," and depth:
            part = "|"
        elif char == "}" and depth:
            part, depth = ")", depth - 1
        else:
            part = literal(char)
        parts.append(part)
        at += length
    return "".join(parts) + ")" * depth


def _bracket_end(text: str) -> int:
    """Returns the index of the `]` that closes the bracket, or 0. A leading `]` is a member of the set."""
    first = 2 if text[1:2] in ("!", "^") else 1
    return max(text.find("]", first + 1), 0)


def _bracket(members: str) -> str:
    if members[0] not in "!^":
        return f"[{members}]"
    return f"[^{members[1:]}]" if members[1:].startswith("]") else f"[^/{members[1:]}]"
