"""The pip of an environment."""

import re
from pathlib import Path

from hermes_lab.errors import ConfigError, InfraError
from hermes_lab.runners.updates.processes import attempt
from hermes_lab.runners.updates.screen import Screen

_ELSEWHERE = re.compile(r"^((?:global|install)\.(?:target|prefix|root))='.+'$", re.MULTILINE)
"""The settings that make pip install somewhere else. No option on its command line takes them back."""


def pip_of(python: str | Path, screen: Screen) -> tuple[str | Path, ...]:
    """The command of the pip of a Python.

    Raises `InfraError` if it has none that runs, `ConfigError` if pip's configuration makes it install elsewhere.
    """
    pip = (python, "-P", "-m", "pip", "--disable-pip-version-check")
    # The URLs of a configuration may have passwords.
    code, output = attempt([*pip, "config", "list"], screen, log_output=False)
    if "No module named pip" in output:
        raise InfraError(f"{python} has no pip: run `{python} -m ensurepip`")
    if code != 0:
        raise InfraError(f"{python} -m pip config list: failed (exit code {code}); run it to see why")
    if found := _ELSEWHERE.search(output):
        raise ConfigError(
            f"pip's configuration sets {found[1]}, which installs into another folder; remove it (`pip config debug` "
            "names its file)"
        )
    return pip
