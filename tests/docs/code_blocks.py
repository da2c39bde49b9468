"""The code blocks of a page, and what runs them.

A block of commands runs line by line, as somebody would type them. What prepares a machine (`pip`, `make`, `source`) is
not run but checked: the extras and targets exist. A block after `<!-- needs: gpu -->` is parsed as far as possible
without one: the options of its commands, and the configuration that they give. Each line of a `text` block must be in
what the commands before it printed, in that order; `...` stands for anything.
"""

import ast
import re
import shlex
import subprocess
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import typer
import yaml
from fakes.command import lab

from hermes_lab.runners.cli import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(
    r"(?:<!-- needs: (?P<needs>\w+) -->\n)?"
    r"^(?P<indent> *)```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PREPARES = ("pip", "make", "source", "python3", "git", "mkdir")
"""What prepares a machine."""
SERVES = ("view", "serve")
"""Commands that run until somebody stops them."""
LANGUAGES = ("bash", "python", "json", "yaml", "toml", "text", "ini")


class Block(NamedTuple):
    """A fenced block. `needs` is what it needs besides this machine, `title` the file that it shows."""

    language: str
    title: str
    text: str
    needs: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, by its path below docs/."""
    text = (DOCS / page).read_text()
    found = [
        Block(m["language"], m["title"] or "", textwrap.dedent(m["text"]), m["needs"] or "")
        for m in BLOCK.finditer(text)
    ]
    assert len(found) == len(re.findall(r"^ *```\w", text, re.MULTILINE)), "a block is not recognised"
    assert {block.language for block in found} <= set(LANGUAGES)
    return found


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a block, each split into words."""
    for line in text.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words


class Reader:
    """Somebody who does what a page says, in a folder. `replaced` are texts that stand for their own."""

    def __init__(self, folder: Path, replaced: Mapping[str, str]):
        self.folder = folder
        self.replaced = replaced
        self.printed = ""
        self.ran: list[tuple[str, str]] = []
        self.variables: dict[str, object] = {}
        if not (folder / "configs").exists():
            (folder / "configs").symlink_to(ROOT / "configs")

    def follow(self, block: Block) -> None:
        """Does what one block says."""
        text = block.text
        for old, new in self.replaced.items():
            text = text.replace(old, new)
        if block.title:
            check_syntax(block)
            (self.folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / block.title).write_text(text)
        elif block.language == "bash":
            self.printed = ""
            for words in commands(text):
                self._run(words, block.needs)
        elif block.language == "python":
            exec(compile(text, "page", "exec"), self.variables)
        elif block.language == "text":
            self._saw(text)
        else:
            check_syntax(block)

    def _run(self, words: list[str], needs: str) -> None:
        if words[0] in PREPARES:
            check_preparation(words)
        elif needs or words[1] in SERVES:
            up_to_the_wire(words)
        else:
            assert words[0] == "hermes-lab", words
            done = lab(*words[1:])
            assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr}"
            self.ran.append((shlex.join(words[1:]), done.stdout + done.stderr))
            self.printed += done.stdout + done.stderr

    def said(self, command: str) -> str:
        """What a command printed."""
        (said,) = [printed for ran, printed in self.ran if ran == command]
        return said

    def _saw(self, text: str) -> None:
        lines = [line.strip() for line in text.splitlines() if line.strip(" .")]
        pattern = ".*?".join(re.escape(line).replace(re.escape("..."), ".*?") for line in lines)
        assert re.search(pattern, self.printed, re.DOTALL), f"not printed:\n{text}\nbut:\n{self.printed}"


def install(folder: Path) -> None:
    """What `pip install -e` does for a package in a folder that is on `sys.path`: its metadata, with entry points."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    about = folder / f"{project['name']}-{project['version']}.dist-info"
    about.mkdir()
    version = f"Name: {project['name']}\nVersion: {project['version']}\n"
    about.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\n{version}")
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    about.joinpath("entry_points.txt").write_text("\n".join(lines))


def check_syntax(block: Block) -> None:
    """Raises if a block of data or code is not what it says."""
    if block.language == "python":
        ast.parse(block.text)
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "json":
        for line in block.text.splitlines():
            yaml.safe_load(line)
    elif block.language == "yaml":
        yaml.safe_load(block.text)


def check_preparation(words: list[str]) -> None:
    """Raises if an extra of the package or a target of the Makefile does not exist."""
    if words[0] == "make":
        subprocess.run(["make", "-n", "-C", str(ROOT), *words[1:]], check=True, capture_output=True)
    if words[0] == "pip":
        named = re.findall(r"(?:\.|hermes-lab)\[([\w,]+)\]", " ".join(words))
        unknown = {extra for group in named for extra in group.split(",")} - set(EXTRAS)
        assert not unknown, f"{shlex.join(words)}: no extra {unknown}"


def up_to_the_wire(words: list[str]) -> None:
    """Parses a command of the lab, and checks the configuration that its options give."""
    assert words[0] == "hermes-lab", words
    command, rest = typer.main.get_command(app), words[1:]
    path: list[str] = []
    while hasattr(command, "commands"):
        name = rest[0] if rest else ""
        assert name in command.commands, f"no command {' '.join([*path, name])}"
        path.append(rest[0])
        command, rest = command.commands[rest[0]], rest[1:]
    context = command.make_context(path[-1], list(rest))
    sources = [str(source) for source in context.params.get("config") or ()]
    if not sources or path[0] in ("gateway", "chat"):
        return
    files = [source for source in sources if source.endswith(".yaml")]
    # The runs that a training reads are made by the commands before it.
    given = [
        part for source in sources if source not in files and not source.startswith("data=") for part in ("-c", source)
    ]
    # As `serve` itself: it serves with vLLM.
    sources = ["model.provider=vllm", *sources] if path[0] == "serve" else sources
    shown = [part for source in sources for part in ("-c", source)]
    done = lab("config", "check", *files, *given) if path[0] == "train" else lab("config", "show", *shown)
    assert done.returncode == 0, f"{shlex.join(words)}: {done.stdout}{done.stderr}"
