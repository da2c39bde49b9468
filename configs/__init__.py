"""The YAML files that the README and the tests use, also in an installed package: `-c configs/run.yaml`."""

from pathlib import Path

_HERE = Path(__file__).parent


def find_config(path: Path) -> Path:
    """The file at `path`; without one, that of this package, for a path such as `configs/train/sft.yaml`."""
    first, *rest = path.parts or ("",)
    if first != "configs" or ".." in rest:
        return path
    mine = _HERE.joinpath(*rest)
    try:
        return mine if mine.is_file() and not path.exists() else path
    except OSError:  # such as a name that is too long
        return path


def output_base(folder: str) -> str:
    """What relative outputs in a file of `folder` are relative to: nothing is written beside this package's own files,
    but where they would be in the working directory."""
    inside = Path(folder).is_relative_to(_HERE)
    return str(Path("configs", Path(folder).relative_to(_HERE))) if inside else folder
