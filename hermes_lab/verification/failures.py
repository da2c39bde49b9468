"""What to say about a bug in a verifier: its file, its line and the traceback."""

import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path

from hermes_lab.errors import InfraError, VerifierError

_MAX_DETAIL = 20_000
"""Characters kept of a traceback; the end is kept, which names the line."""


def explain(error: Exception, package: str = "") -> VerifierError:
    """The error of an episode whose verifier raised `error`, to be raised from it.

    `package` is the verifier's module: its frames are the user's own, even if it is installed.
    """
    return VerifierError(f"{type(error).__name__}: {error} ({location(error, package)})")


def traceback_of(failure: InfraError) -> str:
    """The traceback of an exception in a verifier; "" for other failures, where a traceback does not help."""
    if not isinstance(failure, VerifierError) or failure.__cause__ is None:
        return ""
    return "".join(traceback.format_exception(failure.__cause__))[-_MAX_DETAIL:]


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
    return (Path(__file__).parents[1], *(Path(paths[name]) for name in ("stdlib", "purelib", "platlib")))
