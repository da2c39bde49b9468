"""Writes Harbor task folders of many shapes. In each, doing nothing scores 0 and its solution 1."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

Files = Mapping[str, str | bytes]

WORKDIRS = ("/app", "/workspace", "/root", "/tmp", "/home/agent", "/srv/www/site", "/app/sub", "/usr/src/app", "/opt/w")
REWARD = "/logs/verifier/reward.txt"
_BASES = (
    "python:3.11-slim",
    "ubuntu:24.04",
    "debian:bookworm",
    "ghcr.io/laude-institute/t-bench/ubuntu-24-04:20250624",
)


def write_task(
    folder: Path,
    *,
    instruction: str = "Write the word right to answer.txt.",
    test: str = "",
    solution: str = "echo right > answer.txt",
    dockerfile: str = "",
    workdir: str = "/app",
    toml: str = "",
    files: Files = {},  # noqa: B006
) -> Path:
    """Writes one task; `test` and `solution` are the bodies of bash scripts, without the first line."""
    dockerfile = dockerfile or f"FROM {_BASES[0]}\nWORKDIR {workdir}\n"
    test = test or passes(f'[ "$(cat {workdir}/answer.txt)" = right ]')
    whole: dict[str, str | bytes] = {
        "task.toml": f'schema_version = "1.4"\n{toml}',
        "instruction.md": instruction,
        "environment/Dockerfile": dockerfile,
        "tests/test.sh": f"#!/bin/bash\n{test}\n",
        **({"solution/solve.sh": f"#!/bin/bash\n{solution}\n"} if solution else {}),
        **files,
    }
    for name, content in whole.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def passes(condition: str) -> str:
    """A test script that writes 1 if a condition holds, else 0."""
    return f"if {condition} 2>/dev/null; then echo 1 > {REWARD}; else echo 0 > {REWARD}; fi"


def by_status(command: str) -> str:
    """A test script as in Terminal-Bench: the reward is 1 if a command exits with 0."""
    return f"{command}\nif [ $? -eq 0 ]; then echo 1 > {REWARD}; else echo 0 > {REWARD}; fi"


_PYTEST = """
from pathlib import Path

def test_answer():
    assert Path("answer.txt").read_text().strip() == "right"

def test_length():
    assert len(Path("answer.txt").read_text()) == 6
"""
_UNITTEST = """
import unittest

class Answer(unittest.TestCase):
    def test_answer(self):
        with open("answer.txt") as file:
            self.assertEqual(file.read().strip(), "right")

if __name__ == "__main__":
    unittest.main()
"""
_SCRIPT = """
import json, os
right = os.path.exists("answer.txt") and open("answer.txt").read().strip() == "right"
json.dump({"reward": float(right), "form": 1.0, "seconds": 12.5}, open("/logs/verifier/reward.json", "w"))
"""
_UVX = """
apt-get update
apt-get install -y curl
curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh
source $HOME/.local/bin/env
uvx -p 3.13 -w pytest==8.4.1 -w pytest-json-ctrf==0.3.5 pytest --ctrf /logs/verifier/ctrf.json /tests/test_it.py -rA
"""
_UV_RUN = """
uv venv .tbench-testing
source .tbench-testing/bin/activate
uv pip install pytest==8.4.1
uv run pytest $TEST_DIR/test_it.py
"""


def write_all(folder: Path) -> list[str]:
    """200 tasks; returns their names."""
    made: list[str] = []

    def add(shape: str, number: int, **task: object) -> None:
        made.append(f"{shape}-{number:02d}")
        write_task(folder / made[-1], **task)  # type: ignore[arg-type]

    for n in range(69):
        workdir = WORKDIRS[n % len(WORKDIRS)]
        add(
            "bash",
            n,
            workdir=workdir,
            dockerfile=f"FROM {_BASES[n % 4]}\nRUN mkdir -p {workdir}/in\nWORKDIR {workdir}\n",
        )
    for n in range(20):
        right = f'[ "$(cat answer.txt 2>/dev/null)" = right ] && r=1{".0" * (n % 2)} || r=0'
        add("json", n, test=f'{right}; echo "{{\\"reward\\": $r}}" > /logs/verifier/reward.json')
    for n in range(15):
        keys = (
            '{\\"tests\\": $r, \\"style\\": $r}' if n % 2 else '{\\"reward\\": $r, \\"tests\\": $r, \\"seconds\\": 70}'
        )
        right = '[ "$(cat answer.txt 2>/dev/null)" = right ] && r=1 || r=0'
        add("keys", n, test=f'{right}; echo "{keys}" > /logs/verifier/reward.json; echo 0.5 > {REWARD}')
    for n in range(10):
        ctrf = '{\\"results\\": {\\"tests\\": [{\\"name\\": \\"one\\", \\"status\\": \\"$s\\"}]}}'
        right = '[ "$(cat answer.txt 2>/dev/null)" = right ] && r=1 s=passed || r=0 s=failed'
        add("ctrf", n, test=f'{right}; echo "{ctrf}" > /logs/verifier/ctrf.json; echo $r > {REWARD}')
    for n in range(12):
        add("script", n, test="python3 /tests/check.py", files={"tests/check.py": _SCRIPT})
    for n in range(8):
        command = "python3 -m unittest discover -s /tests" if n % 2 else "python /tests/test_it.py"
        add("unittest", n, test=by_status(command), files={"tests/test_it.py": _UNITTEST})
    for n in range(4):
        command = "pytest /tests/test_it.py -rA" if n % 2 else "python3 -m pytest $TEST_DIR/test_it.py"
        add("pytest", n, test=by_status(command), files={"tests/test_it.py": _PYTEST})
    for n in range(2):
        add("uvx", n, test=by_status(_UV_RUN if n else _UVX), files={"tests/test_it.py": _PYTEST})
    for n in range(20):
        add(
            "variables",
            n,
            dockerfile=f"FROM debian\nARG NAME=given\nENV A=$NAME-{n} B='b c'\nENV OLD form of it\nWORKDIR /app\n",
            toml='[environment.env]\nC = "${NOT_SET:-else}"\n[verifier.env]\nD = "d"\n[solution.env]\nE = "e"\n',
            test=passes(f'[ "$A/$B/$OLD/$C/$D" = "given-{n}/b c/form of it/else/d" -a "$(cat answer.txt)" = "$A.e" ]'),
            solution='echo "$A.$E" > answer.txt',
        )
    for n in range(15):
        add(
            "outside",
            n,
            dockerfile="FROM debian\nWORKDIR /data/in\nCOPY a.txt .\nWORKDIR /app\nRUN ln -s /data/in/a.txt b.txt\n",
            test=passes(f'[ "$(cat /data/out/{n}/c.txt)" = aa -a "$(/usr/local/bin/tool)" = made ]'),
            solution=f"mkdir -p /data/out/{n}; cat /data/in/a.txt b.txt | tr -d '\\n' > /data/out/{n}/c.txt\n"
            "printf '#!/bin/sh\\necho made\\n' > /usr/local/bin/tool; chmod +x /usr/local/bin/tool",
            files={"environment/a.txt": "a\n"},
        )
    for n in range(8):
        add("dockerfile", n, **_features(n))
    for n in range(5):
        add("module", n, **_module(n))
    for n in range(12):
        add("steps", n, **_steps(n))
    return made


def _features(n: int) -> dict[str, object]:
    """COPY of folders, patterns, modes and heredocs, ADD of an archive, continued lines, the JSON form of RUN."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        info = tarfile.TarInfo("packed.txt")
        info.size = 2
        tar.addfile(info, io.BytesIO(b"p\n"))
    dockerfile = f"""# syntax=docker/dockerfile:1
FROM --platform=linux/amd64 python:3.11-slim AS only
LABEL n="{n}"
RUN apt-get update && apt-get install -y --no-install-recommends \\
    # a comment in between
    curl bash && \\
    rm -rf /var/lib/apt/lists/*
RUN pip install --no-cache-dir pytest==8.4.1 && mkdir -p /made/by
WORKDIR /app
COPY --chown=root:root folder/ ./folder/
COPY --chmod=755 ["run me.sh", "/usr/local/bin/run-me"]
COPY *.csv table?.tsv /tables/
ADD packed.tar.gz /packed
COPY <<EOF /app/here.txt
two
lines
EOF
RUN ["mkdir", "-p", "/json form"]
RUN <<EOF
set -e
echo script > /app/script.txt
EOF
RUN cat > /app/more.txt <<'EOF'
$kept
EOF
EXPOSE 80
CMD ["python3"]
"""
    there = "cat folder/in/x.txt here.txt script.txt more.txt /tables/a.csv /tables/table1.tsv /packed/packed.txt"
    return {
        "dockerfile": dockerfile,
        "solution": f"{{ {there}; run-me; ls -d '/json form' /made/by; }} > answer.txt",
        "test": passes('[ "$(md5sum < answer.txt)" = "$(md5sum < /tests/wanted.txt)" ]'),
        "files": {
            "environment/folder/in/x.txt": "x\n",
            "environment/run me.sh": "#!/bin/sh\necho ran\n",
            "environment/a.csv": "csv\n",
            "environment/table1.tsv": "tsv\n",
            "environment/packed.tar.gz": archive.getvalue(),
            "tests/wanted.txt": "x\ntwo\nlines\nscript\n$kept\ncsv\ntsv\np\nran\n/json form\n/made/by\n",
        },
    }


def _module(n: int) -> dict[str, object]:
    """The tests lack what the agent is to make: that is its failure."""
    kinds = (
        ("Write solution.py with a function f() that returns 1.", "python3 /tests/check.py", "import solution"),
        ("Write /app/run.sh, which exits with 0.", "/app/run.sh", ""),
        ("Install a command greet in /usr/local/bin.", "greet", ""),
    )
    instruction, command, code = kinds[n % 3]
    solve = [
        "printf 'def f():\\n    return 1\\n' > solution.py",
        *(f"printf '#!/bin/sh\\n' > {path}; chmod +x {path}" for path in ("/app/run.sh", "/usr/local/bin/greet")),
    ]
    check = f"import sys\nsys.path.insert(0, '/app')\n{code}\nassert solution.f() == 1\n"
    files = {"tests/check.py": check} if code else {}
    return {"instruction": instruction, "test": by_status(command), "solution": solve[n % 3], "files": files}


def _steps(n: int) -> dict[str, object]:
    """Three steps, with a test script of their own or a shared one, and files put before the second."""
    names = ("first", "second", "third")
    gate = ("", "min_reward = 1.0\n", "[steps.min_reward]\nreward = 0.5\n")[n % 3]
    tables = "".join(f'[[steps]]\nname = "{name}"\n{gate}' for name in names)
    strategy = 'multi_step_reward_strategy = "final"\n' if n % 2 else ""
    files: dict[str, str] = {}
    for at, name in enumerate(names):
        files[f"steps/{name}/instruction.md"] = f"Write {name} to {name}.txt."
        files[f"steps/{name}/solution/solve.sh"] = f"#!/bin/bash\necho {name} > {name}.txt\n"
        files[f"steps/{name}/tests/wanted"] = name
        if at == 2:
            both = '[ -f first.txt -a -f given.txt -a "$(cat third.txt)" = third -a -f /tests/shared ]'
            files[f"steps/{name}/tests/test.sh"] = f"#!/bin/bash\n{passes(both)}\n"
    files["steps/second/workdir/setup.sh"] = "echo given > given.txt\n"
    files["tests/shared"] = ""
    shared = passes('[ "$(cat $(cat /tests/wanted).txt)" = "$(cat /tests/wanted)" ]')
    return {"toml": strategy + tables, "test": shared, "solution": "", "files": files}


ERRORED: Mapping[str, tuple[str, dict[str, str], str]] = {
    "no-reward": ("true", {}, "wrote no reward"),
    "empty-reward": (f": > {REWARD}", {}, "reward.txt holds no number"),
    "nan": (f"echo nan > {REWARD}", {}, "not between 0 and 1"),
    "too-much": (f"echo 7 > {REWARD}", {}, "the reward 7 is not between 0 and 1"),
    "json-text": ('echo \'{"reward": "yes"}\' > /logs/verifier/reward.json', {}, "reward.json has no finite numbers"),
    "json-broken": ("echo '{' > /logs/verifier/reward.json", {}, "reward.json is not JSON"),
    "no-command": (by_status("no-such-tool --check"), {}, "no-such-tool: command not found"),
    "no-command-silent": (by_status("no-such-tool 2>/dev/null"), {}, "no-such-tool: command not found"),
    "no-command-behind": (by_status("timeout 5 no-such-tool"), {}, "no-such-tool: command not found"),
    "no-command-in-if": (f"if no-such-tool; then echo 1; else echo 0; fi > {REWARD}", {}, "no-such-tool"),
    "not-executable": (by_status("/tests/helper"), {"tests/helper": "x"}, "/tests/helper cannot be run"),
    "no-module": (by_status("python3 -m nosuchmodule"), {}, "no module nosuchmodule"),
    "no-import": (by_status("python3 /tests/c.py"), {"tests/c.py": "import nosuchmodule"}, "no module nosuchmodule"),
    "pytest-nothing": (by_status("pytest /tests/test_it.py"), {"tests/test_it.py": "x = 1"}, "collected no tests"),
    "pytest-no-file": (by_status("pytest /tests/test_other.py"), {}, "pytest was called wrongly"),
    "pytest-wrong-option": (by_status("python3 -m pytest --no-such-option"), {}, "pytest was called wrongly"),
    "pytest-no-import": (
        by_status("pytest /tests/test_it.py"),
        {"tests/test_it.py": "import nosuchmodule\ndef test_it(): pass"},
        "no module nosuchmodule",
    ),
    "pytest-broken": (
        by_status("PYTHONPATH=/tests:$PYTHONPATH python3 -m pytest /tests/test_it.py"),
        {"tests/pluggy/__init__.py": "from . import none", "tests/test_it.py": "def test_it(): pass"},
        "pytest did not start",
    ),
    "unittest-nothing": (by_status("python3 -m unittest discover -s /tests; false"), {}, "unittest collected no tests"),
    "uvx-no-tool": (by_status('tool=nosuch; uvx "$tool"'), {}, "nosuch cannot be installed"),
    "pip-not-here": (
        by_status('wanted=no-such-package; pip install "$wanted"'),
        {},
        "no-such-package cannot be installed",
    ),
}
"""Test scripts that say nothing about the agent: the script, more files, and what is said of it."""
