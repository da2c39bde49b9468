"""The folder with a user's skills, notes, memories and sessions."""

import os
from pathlib import Path

from platformdirs import user_data_dir


def hermes_home() -> Path:
    """The Hermes home: $HERMES_HOME, or the user's data folder. It may not exist yet."""
    return Path(os.environ.get("HERMES_HOME") or user_data_dir("hermes-lab")).expanduser()
