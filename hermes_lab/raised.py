"""An exception in one line, with the place in the user's own code."""

import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path


def told(error: Exception, package: str = "") -> str:
    """`KeyError: 'x' (FILE:LINE)`, in one line. `package` is as in `location`."""
    said = message_of(error)
    return f"{type(error).__name__}{f': {said}' if said else ''} ({location(error, package)})"


def message_of(error: BaseException) -> str:
    """The message of an exception in one line, without the place that that of a `SyntaxError` ends with."""
    return " ".join(str(error.msg if isinstance(error, SyntaxError) and error.filename else error).split())


def location(error: Exception, package: str = "") -> str:
    """`file:line` of the innermost frame in the user's own code, or of the innermost frame if there is none.

    Frames of this package, the standard library and installed packages other than `package` are skipped.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    root = package.partition(".")[0]
    own = [(frame, line) for frame, line in frames if _is_own(frame.f_code.co_filename, frame.f_globals, root)]
    frame, line = (own or frames)[-1]
    return f"{frame.f_code.co_filename}:{line}"


def _is_own(file: str, names: dict[str, object], root: str) -> bool:
    if file.startswith("<"):  # such as `<string>`
        return False
    if root not in ("", "hermes_lab") and str(names.get("__name__", "")).partition(".")[0] == root:
        return True
    return not any(Path(file).is_relative_to(folder) for folder in _others())


def _others() -> Iterable[Path]:
    paths = sysconfig.get_paths()
    return (Path(__file__).parent, *(Path(paths[name]) for name in ("stdlib", "purelib", "platlib")))
