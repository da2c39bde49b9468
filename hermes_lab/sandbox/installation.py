"""Which folders of this machine a program needs besides the system's own."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hermes_lab.errors import ConfigError

_SYSTEM = (Path("/usr"), Path("/bin"), Path("/sbin"), Path("/lib"), Path("/lib64"))
_MODULES = "node_modules"
_HOMES = (Path("/home"), Path("/Users"))
_ENV = "env"
_LAB = Path(__file__).resolve().parents[1]


def installation(executable: Path) -> tuple[Path, ...]:
    """The folders, the program's own first: its virtual environment, `node_modules` or folder, then its interpreter's.

    Follows links and the interpreter of a script (`#!`). What is below /usr is left out, since sandboxes have that. Of
    a folder of many programs, such as ~/.local/bin, it is the program's file alone, and nothing for a link in it: see
    `seen_executable`. Raises `ConfigError` if a home or another shared folder would be all open to the agent.
    """
    found: dict[Path, None] = {}
    for path in _chain(executable.absolute()):
        root = _root_of(path)
        if root is not None and not any(root.is_relative_to(folder) for folder in (*_SYSTEM, *found)):
            check_hides_lab(root)
            found[root] = None
    return tuple(found)


def check_hides_lab(folder: Path) -> None:
    """Raises `ConfigError` if Hermes Lab itself is in the folder: its modules hold the rules of its tasks."""
    if _LAB.is_relative_to(folder.resolve()):
        raise ConfigError(
            f"{folder}: Hermes Lab itself is in it, and the agent could read the rules of its tasks there: use a "
            "program in a folder of its own, such as a virtual environment without hermes-lab"
        )


def seen_executable(executable: Path) -> Path:
    """The path at which a sandbox with its installation has an executable: links outside of it are followed."""
    path = executable.absolute()
    for _ in range(40):  # as many links as the kernel follows
        if not path.is_symlink() or _root_of(path) is not None:
            break
        path = _target(path)
    return path


def _chain(executable: Path) -> Iterator[Path]:
    """The executable, what it links to, and the interpreters of each, in the same way."""
    waiting, seen = [executable], set[Path]()
    while waiting:
        path = waiting.pop(0)
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        yield path
        if path.is_symlink():
            waiting.append(_target(path))
        elif (resolved := path.resolve()) != path:
            waiting.append(resolved)
        else:
            waiting += _interpreters(path)
        if home := _base_python(path):
            waiting.append(home)


def _target(link: Path) -> Path:
    """What a link says, below its folder as it is: `..` in it is meant from there."""
    return Path(os.path.normpath(link.parent.resolve() / link.readlink()))


def _interpreters(script: Path) -> list[Path]:
    """The interpreter in a script's first line; for `env`, the program on the PATH that it names, too."""
    try:
        with script.open("rb") as file:
            first = file.readline(4096)
    except OSError as error:
        raise ConfigError(f"{script}: {error.strerror}; a sandboxed program must be readable") from None
    words = [os.fsdecode(word) for word in first.removeprefix(b"#!").split()] if first.startswith(b"#!") else []
    found = [Path(words[0])] if words else []
    if words and found[0].name == _ENV:
        named = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
        # The folder of the script comes first on the PATH that it gets.
        if named and (there := shutil.which(named, path=f"{script.parent}:{os.environ.get('PATH', os.defpath)}")):
            found.append(Path(there).absolute())
    return found


def _base_python(path: Path) -> Path | None:
    """The Python from which the virtual environment of an executable was made."""
    config = path.parent.parent / "pyvenv.cfg"
    if not config.is_file():
        return None
    for line in config.read_text(errors="replace").splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "home":
            return Path(value.strip(), "python3")
    return None


def _root_of(path: Path) -> Path | None:
    """The folder that a program is installed in: its virtual environment, the outermost `node_modules`, the parent of
    its `bin`, or else its own folder. In a folder of many programs it is the file alone; None for a link there. Such
    a folder is, next to ~/.local/bin, one like ~/.cargo/bin without a `lib` beside it."""
    parts = path.parts
    if _MODULES in parts[:-1]:
        return Path(*parts[: parts.index(_MODULES) + 1])
    folder = path.parent
    if (folder.parent / "pyvenv.cfg").is_file() and not _is_shared(folder.parent):
        return folder.parent
    if folder.name == "bin":
        if not _is_shared(folder.parent) and (not _is_home(folder.parent.parent) or (folder.parent / "lib").is_dir()):
            return folder.parent
        return None if path.is_symlink() else path
    if path.is_symlink() and _is_shared(folder):
        return None
    if _is_shared(folder):
        raise ConfigError(
            f"{path}: all of {folder} would be open to the agent: install the program in a folder of its own, such as "
            "a virtual environment"
        )
    return folder


def _is_shared(folder: Path) -> bool:
    """Whether a folder holds far more than one program: the root, a home or its .local, a folder above those or above
    temporary files."""
    temporary = Path(tempfile.gettempdir())
    if any(each.is_relative_to(folder) for each in (*_homes(), *_HOMES, temporary, temporary.resolve(), Path("/tmp"))):
        return True
    return _is_home(folder) or (folder.name == ".local" and _is_home(folder.parent))


def _is_home(folder: Path) -> bool:
    return folder in _homes() or folder.parent in _HOMES


def _homes() -> tuple[Path, ...]:
    home = Path(os.path.expanduser("~"))  # noqa: PTH111
    return home, home.resolve(), Path("/root")
