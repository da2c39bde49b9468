"""The lines of the compiler of skills, as `hermes-lab run` and `chat` show them."""

import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
TOOLMAKER = [
    *("-c", "model.provider=scripted", "-c", "model.name=fakes.toolmaker:toolmaker"),
    *("-c", "agent.toolsets=[compile]"),
]
LINES = [
    "[Core] No tool found for task...",
    "[Compiler] Drafting 'double.py'...",
    "[Sandbox] Executing validation suite... Exit code: 1",
    "[Compiler] Drafting 'double.py'...",
    "[Sandbox] Executing validation suite... Exit code: 0",
    "[Core] Skill 'double' successfully registered.",
]


def lab(*args: str | Path, home: Path) -> list[str]:
    """The lines that the command says which are the compiler's."""
    done = subprocess.run(
        [sys.executable, "-m", "hermes_lab", *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS), "HERMES_HOME": str(home)},
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if any(part in line for part in ("[Core]", "[Comp", "[Sand"))]


def run(tmp_path: Path, tasks: int) -> list[str]:
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(json.dumps({"id": f"t{number}", "prompt": "Double it."}) + "\n" for number in range(tasks)))
    given = ["-c", f"suite.path={file}", *TOOLMAKER, "-c", "run.concurrency=3"]
    return lab("run", *given, "--out", tmp_path / "run", home=tmp_path)


def test_the_lines_of_one_episode_are_as_published(tmp_path: Path) -> None:
    assert run(tmp_path, 1) == LINES


def test_the_lines_of_a_chat_are_as_published(tmp_path: Path) -> None:
    assert lab("chat", *TOOLMAKER, "Double it.", home=tmp_path) == LINES


def test_the_lines_of_episodes_that_run_at_once_tell_whose_they_are(tmp_path: Path) -> None:
    said = [line.split(": ", 1) for line in run(tmp_path, 3)]
    whose = {key for key, _ in said}
    assert sorted(key.split("|")[1] for key in whose) == ["t0", "t1", "t2"]
    for key in whose:
        assert [line for name, line in said if name == key] == LINES
