"""The YAML files that the README and the tests use, also in an installed package: `-c configs/run.yaml`."""

from pathlib import Path

_HERE = Path(__file__).parent


def find_config(path: Path) -> Path:
    """The file at `path`; without one, that of the same name in this package, for a path such as `configs/run.yaml`."""
    if len(path.parts) == 2 and path.parts[0] == "configs" and not path.exists() and (_HERE / path.name).is_file():
        return _HERE / path.name
    return path
