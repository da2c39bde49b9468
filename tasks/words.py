"""The words of a family: a YAML file beside its code."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml


def read_words(module_file: str, name: str = "words") -> Any:
    """The content of `NAME.yaml` in the folder of a module, which passes its `__file__`. Read once per process.

    Texts are quoted or block scalars in these files, so that YAML reads none of them as a number, a date or a boolean.
    """
    return _read(Path(module_file).with_name(f"{name}.yaml"))


@cache
def _read(path: Path) -> Any:
    return yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
