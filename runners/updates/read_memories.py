"""Reads the memories of the home with the version whose Python runs this file: no command of it only reads them."""

import os
import sys
from pathlib import Path

from hermes_lab.memory.vector_sqlite import SqliteMemory

if __name__ == "__main__":
    try:
        SqliteMemory(Path(os.environ["HERMES_HOME"], "memories.db")).count()
    except Exception as error:
        sys.exit(str(error))
