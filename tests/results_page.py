"""`docs/results.md` and the runs that it is about: its commands run again, and what they print.

python tests/results_page.py pack runs/flagship     keep these runs in results/, for the page and its test
python tests/results_page.py fill                   run the page's commands again, and write down what they print
"""

import contextlib
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fakes.command import lab

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
ARCHIVES = ROOT / "results"
BLOCK = re.compile(r"^```console\n\$ (?P<command>[^\n]+)\n(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL)
_PICTURES = {"groups.png": "runs/flagship/groups.png", "course.png": "runs/course/groups.png"}
_MADE_AGAIN = re.compile(r"/server\.log$|\.html$|/plots(/|$)|/[^/]+\.png$|\.lock$")
"""What a run folder holds and no number comes from, or is made from the rest."""


def pack(folder: Path) -> Path:
    """Keeps a study's runs as `results/NAME.tar.xz`, under the path that its commands know them by."""
    ARCHIVES.mkdir(exist_ok=True)
    archive = ARCHIVES / f"{folder.name}.tar.xz"
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in sorted(folder.rglob("*")):
            # An empty library is an empty folder.
            kept = path.is_symlink() or not path.is_dir() or not any(path.iterdir())
            if kept and not _MADE_AGAIN.search(path.as_posix()):
                tar.add(path, path.as_posix(), recursive=False, filter=_nobody)
    return archive


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


@contextlib.contextmanager
def unpacked() -> Iterator[Path]:
    """A folder in which the page's commands find the runs, and the configurations of this repository."""
    with tempfile.TemporaryDirectory() as made:
        for archive in ARCHIVES.glob("*.tar.xz"):
            with tarfile.open(archive) as tar:
                tar.extractall(made, filter="data")
        (Path(made) / "configs").symlink_to(ROOT / "configs")
        yield Path(made)


def printed(command: str, folder: Path) -> str:
    """What a command of the page prints there. Raises `RuntimeError` with its complaint where it fails."""
    program, *arguments = command.split()
    if program != "hermes-lab":
        raise RuntimeError(f"the page may run hermes-lab alone, not {program}")
    with contextlib.chdir(folder):
        done = lab(*arguments, COLUMNS="120")
    if done.returncode:
        raise RuntimeError(f"{command}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def fill() -> None:
    """Writes what every command prints into the page, and copies the pictures that they draw."""
    with unpacked() as folder:
        made = BLOCK.sub(
            lambda block: f"```console\n$ {block['command']}\n{printed(block['command'], folder)}```", PAGE.read_text()
        )
        for name, plot in _PICTURES.items():
            shutil.copyfile(folder / plot, PAGE.parent / "results" / name)
    PAGE.write_text(made)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["pack", study]:
            print(pack(Path(study)))
        case ["fill"]:
            fill()
        case _:
            sys.exit(__doc__)
