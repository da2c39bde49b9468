"""The guides of docs/howto, docs/runs.md and the README: their commands exist, and their examples do what they say."""

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from code_blocks import DOCS, Block, Reader, blocks, check_preparation, check_syntax, commands, install, up_to_the_wire
from scipy.integrate import quad

from hermes_lab.gateway.platform import Inbound, Outbound
from hermes_lab.tools.registry import known_tools
from hermes_lab.tools.toolbox import reload_tools

GUIDES = [*sorted(str(path.relative_to(DOCS)) for path in (DOCS / "howto").glob("*.md")), "../README.md"]
GUIDES += [f"{name}.md" for name in ("containers", "release", "runs", "update")]
ELSEWHERE = ("~/", "curl")
"""What begins a command of another installation."""


def example(page: str, title: str) -> Block:
    (found,) = [block for block in blocks(page) if block.title == title]
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where examples are written, and imported from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    reload_tools()
    yield tmp_path
    reload_tools()
    for module in ("words", "spool"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize("page", GUIDES)
def test_every_command_of_a_guide_exists(page: str, folder: Path) -> None:
    reader = Reader(folder, {})
    for name in ("mcp.yaml", "ssh.yaml"):
        (folder / name).write_text("")
    for block in blocks(page):
        check_syntax(block)
        for words in commands(block.text) if block.language == "bash" else ():
            if words[0] == "hermes-lab":
                up_to_the_wire(words)
            elif not words[0].startswith(ELSEWHERE) and words[0] != "export":
                check_preparation(words)
    assert reader.ran == []


def test_the_tool_is_found_and_counts_words(folder: Path) -> None:
    reader = Reader(folder, {})
    for block in blocks("howto/tool.md"):
        reader.follow(block)
        if block.title == "pyproject.toml":
            install(folder)
    assert "count_words" in reader.said("tools list words")

    class Files:
        async def read(self, path: str) -> bytes:
            return {"notes.txt": b"one two\nthree"}[path]

    class Context:
        sandbox = Files()

    tool = known_tools()["count_words"]
    assert asyncio.run(tool.handler(Context(), path="notes.txt")) == {"words": 3}  # type: ignore[arg-type]


def test_the_platform_takes_a_message_once_and_sends_the_reply(folder: Path) -> None:
    (folder / "spool.py").write_text(example("howto/platform.md", "spool.py").text)
    platform = importlib.import_module("spool").Spool({"folder": folder / "chats"})
    taken: list[Inbound] = []

    async def accept(event: Any) -> None:
        assert (folder / "chats/in/ann-1.txt").exists()  # still there if it is killed now
        taken.append(event)

    async def talk() -> None:
        async with platform.connect(None) as connection:
            (folder / "chats/in/ann-1.txt").write_text("Hello")
            receiving = asyncio.create_task(connection.receive(accept))
            while (folder / "chats/in/ann-1.txt").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            receiving.cancel()
            await connection.send(Outbound(key="k", chat="ann", thread="", text="Hi"))

    asyncio.run(talk())
    assert [(each.update, each.chat, each.text) for each in taken] == [("ann-1.txt", "ann", "Hello")]
    assert (folder / "chats/out/ann-k.txt").read_text() == "Hi"


def test_the_curve_has_the_gradient_area_and_inverse_that_it_says() -> None:
    module: dict[str, Any] = {}
    exec(example("howto/curve.md", "halving.py").text, module)
    curve, shape, n_N = module["Halving"](), np.array([7.0]), np.array([0.0, 3.0, 20.0])
    left = curve.left(shape, n_N)
    assert left == pytest.approx(0.5 ** (n_N / 7))
    step = 1e-6
    slope = (curve.left(shape + step, n_N) - curve.left(shape - step, n_N)) / (2 * step)
    assert curve.left_gradient(shape, n_N, left)[0] == pytest.approx(slope, abs=1e-8)
    area, _ = quad(lambda n: curve.left(shape, np.array([n]))[0], 0, 30)
    assert curve.left_area(shape, 30) == pytest.approx(area)
    assert curve.left(shape, np.array([curve.left_threshold(shape, 0.1)])) == pytest.approx([0.1])
    ((least, most),) = curve.shape_bounds(1.0, 50.0)
    assert 0 < least < 7 < most


def test_the_environment_steps() -> None:
    code, _own = [block.text for block in blocks("howto/environment.md") if block.language == "python"]
    variables: dict[str, Any] = {}
    exec(code, variables)
    assert "ledger" in str(variables["observation"]["conversation"])
    assert not variables["terminated"]
