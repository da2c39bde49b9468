from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from hermes_lab.tools.registry import ToolContext

Use = Callable[..., Awaitable[dict[str, Any]]]
pytestmark = pytest.mark.anyio


async def begin(use: Use, command: str, **arguments: Any) -> str:
    answer = await use("terminal", command=command, background=True, **arguments)
    assert list(answer) == ["id"]
    return str(answer["id"])


async def test_a_background_command_is_not_waited_for(use: Use) -> None:
    id = await begin(use, "until [ -e go ]; do sleep 0.01; done; echo went; exit 3")
    assert await use("process", action="poll", id=id) == {"id": id, "status": "running", "output": ""}
    await use("terminal", command="touch go")
    assert await use("process", action="wait", id=id) == {
        "id": id,
        "status": "exited",
        "exit_code": 3,
        "output": "went\n",
    }


async def test_it_has_the_directory_and_variables_of_the_agent_and_keeps_its_own(use: Use) -> None:
    await use("terminal", command="mkdir -p sub other; cd sub; export WORD='a b'")
    one = await begin(use, 'echo "$WORD" "$PWD"; cd /; export WORD=c')
    two = await begin(use, "pwd", workdir="/app/data/other")
    assert (await use("process", action="wait", id=one))["output"] == "a b /app/data/sub\n"
    assert (await use("process", action="wait", id=two))["output"] == "/app/data/other\n"
    assert (await use("terminal", command='echo "$WORD" "$PWD"'))["output"] == "a b /app/data/sub\n"
    assert (await use("terminal", command="find /app/data -type f"))["output"] == ""


async def test_poll_gives_what_is_new(use: Use) -> None:
    id = await begin(use, "echo öne; until [ -e go ]; do sleep 0.01; done; printf two")
    seen = ""
    with anyio.fail_after(60):
        while not seen:
            seen = (await use("process", action="poll", id=id))["output"]
    assert seen == "öne\n"
    assert (await use("process", action="poll", id=id))["output"] == ""
    await use("terminal", command="touch go")
    assert (await use("process", action="wait", id=id))["output"] == "two"
    assert (await use("process", action="wait", id=id))["output"] == ""
    assert await use("process", action="log", id=id) == {"id": id, "output": "öne\ntwo", "total_lines": 2}


async def test_long_output_is_read_in_parts(use: Use) -> None:
    id = await begin(use, "seq 10000")
    news = await use("process", action="wait", id=id)
    assert news["output"].endswith("\n9999\n10000\n")
    assert len(news["output"]) + news["skipped_bytes"] == len("".join(f"{n}\n" for n in range(1, 10_001)))
    assert len(news["output"]) < 2_000
    log = await use("process", action="log", id=id, offset=5_000, limit=3)
    assert log == {"id": id, "output": "5000\n5001\n5002\n", "total_lines": 10_000}
    assert (await use("process", action="log", id=id, limit=2))["output"] == "9999\n10000\n"
    assert (await use("process", action="log", id=id, offset=10_001))["output"] == ""


async def test_kill_ends_a_command_with_all_that_it_started(use: Use) -> None:
    id = await begin(use, "trap '' TERM; (sleep 4000.125 & sleep 4000.25) & sleep 4000.5")
    count = "grep -l '^sleep.4000' -a /proc/[0-9]*/cmdline | wc -l"
    with anyio.fail_after(60):
        while (await use("terminal", command=count))["output"] != "3\n":  # noqa: ASYNC110
            await anyio.sleep(0.01)
    assert await use("process", action="kill", id=id) == {"id": id, "status": "killed", "exit_code": 137}
    with anyio.fail_after(60):
        while (await use("terminal", command=count))["output"] != "0\n":  # noqa: ASYNC110
            await anyio.sleep(0.01)
    assert (await use("process", action="poll", id=id))["status"] == "killed"


async def test_what_has_ended_keeps_its_exit_code_when_killed(use: Use) -> None:
    id = await begin(use, "exit 4")
    await use("process", action="wait", id=id)
    assert await use("process", action="kill", id=id) == {"id": id, "status": "exited", "exit_code": 4}


async def test_a_command_that_the_agent_killed_itself_is_seen_to_be_gone(use: Use) -> None:
    id = await begin(use, "sleep 4000")
    await use("terminal", command="kill -KILL -1", timeout=5)
    assert (await use("process", action="wait", id=id))["status"] == "killed"


async def test_waiting_ends_at_its_timeout(use: Use) -> None:
    id = await begin(use, "sleep 4000")
    assert (await use("process", action="wait", id=id, timeout=0.05))["status"] == "running"


async def test_waiting_can_be_cancelled(use: Use) -> None:
    id = await begin(use, "sleep 4000")
    with anyio.move_on_after(0.1) as scope:
        await use("process", action="wait", id=id)
    assert scope.cancelled_caught
    assert (await use("process", action="poll", id=id))["status"] == "running"


async def test_commands_are_listed_in_their_order(use: Use) -> None:
    assert await use("process", action="list") == {"processes": []}
    long = "true " + "x" * 500
    one, two = await begin(use, "sleep 4000"), await begin(use, long)
    await use("process", action="wait", id=two)
    assert await use("process", action="list") == {
        "processes": [
            {"id": one, "status": "running", "command": "sleep 4000"},
            {"id": two, "status": "exited", "exit_code": 0, "command": f"{long[:200]} [...]"},
        ]
    }


async def test_mistakes_are_named(use: Use) -> None:
    assert "needs the id" in (await use("process", action="poll"))["error"]
    assert (await use("process", action="kill", id="p1"))["error"] == "no background command 'p1'; known ids: none"
    answer = await use("terminal", command="true", background=True, workdir="/nope")
    assert answer == {"error": "workdir: no such folder: /nope"}
    assert await use("process", action="list") == {"processes": []}


async def test_a_command_of_any_text_is_run_as_it_stands(use: Use) -> None:
    id = await begin(use, "printf '%s|' \"$0\" 'it''s' \"a\nb\" \\$HOME é; echo \"$(echo {1..3})\" # }")
    assert (await use("process", action="wait", id=id))["output"] == "bash|its|a\nb|$HOME|é|1 2 3\n"


async def test_scratch_that_the_agent_removed_is_told_or_made_again(use: Use) -> None:
    id = await begin(use, "true")
    await use("process", action="wait", id=id)
    await use("terminal", command="rm -rf /tmp/.hermes-lab-* /tmp/*")
    assert await use("process", action="poll", id=id) == {"error": "its output was deleted"}
    again = await begin(use, "echo hi")
    assert (await use("process", action="wait", id=again))["output"] == "hi\n"
    assert await use("execute_code", code="print(1)") == {"output": "1\n", "exit_code": 0}


async def test_no_two_episodes_share_a_scratch_folder(context: ToolContext, use: Use) -> None:
    await begin(use, "sleep 4000")
    await use("execute_code", code="1")
    listed = (await use("terminal", command="ls -a /tmp"))["output"].split()
    assert len([name for name in listed if name.startswith(".hermes-lab-")]) == 1
