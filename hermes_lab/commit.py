"""The commit of a package that runs from a checkout: versions in development all have the same number."""

import os
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
"""The folder around the package: that of the repository in a checkout."""
_SECONDS = 10.0


def checkout_commit(folder: Path = CHECKOUT) -> str:
    """The commit of the repository in `folder`, with `-dirty` if tracked files differ from it.

    "" where there is no repository, as in an installed package, or where git does not answer.
    """
    if not (folder / ".git").exists():
        return ""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(
            command,
            env={**kept, "GIT_OPTIONAL_LOCKS": "0"},  # it may run beside a commit
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
