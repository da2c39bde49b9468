"""Problems that checks of a skill find, and the paths that its scripts may write."""

import posixpath
import re
from typing import Literal, NamedTuple

Severity = Literal["error", "warning"]
Kind = Literal["", "sandboxed"]
_WRITABLE = ("/app/data", "/tmp", "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd", "/dev/tty")
_SYSTEM = re.compile(
    r"/(bin|boot|dev|etc|lib\d*|opt|proc|root|run|sbin|sys|usr|var)(/|$)|/$|/app/skills|"
    r"~?/?(.*/)?\.(ssh|aws|gnupg|kube|config|bash\w*|zsh\w*|profile|netrc|npmrc|git|claude|hermes)(/|$)|/\*|~/?\*?$"
)


class Problem(NamedTuple):
    """A problem in the file `path` of a skill; `line` 0 means the whole file.

    The kind `sandboxed` is what the sandbox prevents or contains, such as use of the network. A script that an agent
    wrote fails by it; one that a person installs may be meant for another place, and is theirs to judge.
    """

    severity: Severity
    path: str
    line: int
    message: str
    kind: Kind = ""

    def __str__(self) -> str:
        return f"{self.path}{f':{self.line}' if self.line else ''}: {self.message}"


def network(path: str, line: int, what: str = "") -> Problem:
    """Code that uses the network."""
    return Problem("error", path, line, f"{what} uses the network".strip(), "sandboxed")


def written(path: str, line: int, target: str) -> Problem | None:
    """A write to `target`, in which `*` marks unknown parts; None if a skill may write there."""
    if not _is_outside(target):
        return None
    kind: Kind = "" if _SYSTEM.match(target if target.startswith("~") else posixpath.normpath(target)) else "sandboxed"
    return Problem("error", path, line, f"writes outside /app/data: {target}", kind)


def _is_outside(path: str) -> bool:
    if path.startswith("~"):
        return True
    plain = posixpath.normpath(path)
    if not plain.startswith("/"):
        return plain.startswith("../") or plain == ".."
    return not any(plain == below or plain.startswith(f"{below}/") for below in _WRITABLE)
