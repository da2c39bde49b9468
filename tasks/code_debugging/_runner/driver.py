"""Runs inside the sandbox: plays sessions on a package that is given as text, and writes the results as JSON.

`argv[1]` is `{"sources": {module: base64}, "sessions": [[step]]}`. A step is `[module, name, args]`, a call; or
`[module, name, null]`, the value of that name. Every session imports the package anew. The answer has a list for each
session, and in it for each step `[result]`, or `[]` where it failed or gave what JSON cannot tell, such as a tuple.
The code under test runs in this very process, so it may forge what is written; but neither the results that are wanted
nor anything of the harness is within its reach.
"""

import base64
import importlib
import json
import os
import sys
from collections.abc import Mapping
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import decode_source, spec_from_loader
from typing import Any

LONGEST = 500
"""Characters of a result."""


class Sources(MetaPathFinder, InspectLoader):
    """Imports from memory: no file of the workspace is looked at, so none can stand in a module's place."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = {name: base64.b64decode(source) for name, source in sources.items()}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The module, if it is one of the package."""
        del path, target
        return spec_from_loader(name, self) if name in self._sources else None

    def is_package(self, fullname: str) -> bool:
        """Every name that others lie below."""
        return any(name.startswith(f"{fullname}.") for name in self._sources)

    def get_source(self, fullname: str) -> str:
        """The text of a module."""
        return decode_source(self._sources[fullname])


def _outcome(module: str, name: str, args: list[Any] | None) -> list[Any]:
    try:
        found = getattr(importlib.import_module(module), name)
        result = found if args is None else found(*args)
        text = json.dumps(result)
        # Parsed again, since a later step may change what this one gave.
        told = json.loads(text)
        return [told] if told == result and len(text) <= LONGEST else []
    except BaseException:
        return []


def _play(steps: list[list[Any]], package: Mapping[str, str]) -> list[Any]:
    for name in package:
        sys.modules.pop(name, None)
    return [_outcome(module, name, args) for module, name, args in steps]


def main() -> None:
    """Prints of the code under test go nowhere, and what it left to run at exit does not run."""
    out, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    work = json.loads(sys.argv[1])
    sys.meta_path.insert(0, Sources(work["sources"]))
    importlib.import_module(work["sessions"][0][0][0])
    os.write(out, json.dumps([_play(steps, work["sources"]) for steps in work["sessions"]]).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
