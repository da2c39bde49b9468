"""`~` and `$HOME` are the workspace, for every tool that takes a path."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.sandbox import open_sandbox
from hermes_lab.tools.paths import file_path, folder_path
from hermes_lab.tools.registry import ToolContext

Use = Callable[..., Awaitable[dict[str, Any]]]
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("home", ["~", "$HOME", "${HOME}"])
async def test_home_is_the_workspace(context: ToolContext, use: Use, home: str) -> None:
    assert await use("write_file", path=f"{home}/sub/x", content="one\n") == {"path": "sub/x", "bytes": 4}
    assert await context.sandbox.read("sub/x") == b"one\n"
    assert (await use("read_file", path=f"{home}/sub/x"))["content"] == "1|one"
    assert (await use("patch", path=f"{home}//sub/x", old_string="one", new_string="two"))["path"] == "sub/x"
    assert await use("search_files", pattern="two", path=f"{home}/sub") == {"matches": "sub/x:1:two"}
    assert await use("search_files", pattern="two", path=home) == {"matches": "sub/x:1:two"}
    assert (await use("search_files", pattern="x", path=f"{home}/", target="files"))["files"] == ["sub/x"]
    await use("terminal", command="cd /usr")  # a relative folder would begin there
    assert (await use("terminal", command="pwd", workdir=f"{home}/sub"))["output"] == "/app/data/sub\n"
    assert (await use("terminal", command="pwd", workdir=home))["output"] == "/app/data\n"
    started = await use("terminal", command="pwd", workdir=f"{home}/sub", background=True)
    assert (await use("process", action="wait", id=started["id"]))["output"] == "/app/data/sub\n"
    assert (await use("terminal", command="ls -A /app/data"))["output"] == "sub\n"


async def test_home_does_not_lead_out_of_the_workspace(use: Use) -> None:
    assert "`..` is not allowed" in (await use("write_file", path="~/../x", content=""))["error"]
    assert "not a file" in (await use("write_file", path="~", content=""))["error"]


@pytest.mark.parametrize("path", ["x~", "~x/y", "a/~/b", "$HOMER/x", "./~", "", "/app/data/x", "sub/x"])
def test_any_other_path_stays_as_it_is(path: str) -> None:
    config = SandboxConfig()
    assert file_path(path) == path
    assert folder_path(ToolContext(open_sandbox(config), None, config), path) == path


async def test_absolute_paths_below_the_workspace_work(use: Use) -> None:
    await use("write_file", path="/app/data/sub/x", content="one\n")
    assert (await use("terminal", command="cat x", workdir="/app/data/sub"))["output"] == "one\n"
    assert (await use("search_files", pattern="one", path="/app/data/sub"))["matches"] == "sub/x:1:one"
