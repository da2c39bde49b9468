"""The lab of docs/containers.md, step by step, in real containers and against a scripted endpoint."""

import csv
import fcntl
import json
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests/hermes_lab/sandbox"))

from docker_fixture import why_not  # noqa: E402
from fakes import images  # noqa: E402
from fakes.compose import Compose, Missing, docker  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
IMAGE = "hermes-lab-test-compose"
CALLER = 4242
PASSWORD = "a-password-of-tests"
LINES = [
    "[Core] No tool found for task...",
    "[Compiler] Drafting 'generate_csv_report.py'...",
    "[Sandbox] Executing validation suite... Exit code: 0",
    "[Core] Skill 'generate_csv_report' successfully registered.",
]
ASKED = "Create a skill generate_csv_report and use it for the sales of March."

# An OpenAI-compatible endpoint: drafts the skill, calls it, answers.
ENDPOINT = '''
import http.server, json, socketserver, sys
CODE = """
import csv


def generate_csv_report(filename: str, sales_data: dict[str, float]) -> str:
    \\"\\"\\"Write sales as a CSV report.

    Args:
        filename: Name of the file in /app/data, without .csv.
        sales_data: Revenue by product.
    \\"\\"\\"
    path = f"/app/data/{filename}.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Product", "Revenue"])
        writer.writerows(sales_data.items())
    return path
"""
TESTS = """
import os
from generate_csv_report import generate_csv_report
path = generate_csv_report("self-check", {"Pen": 2.0})
assert open(path).read().splitlines() == ["Product,Revenue", "Pen,2.0"]
os.remove(path)
"""
SALES = {"Lamp": 120.5, "Desk": 899.0}
CALLS = [
    ("skill_compile", {"name": "generate_csv_report", "purpose": "Write sales as CSV.", "code": CODE, "tests": TESTS}),
    ("generate_csv_report", {"filename": "march", "sales_data": SALES}),
]

class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass
    def do_GET(self):
        self.reply({"data": [{"id": "scripted"}]})
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["Authorization"] == "Bearer a-key", self.headers
        asked = [each["content"] for each in body["messages"] if each["role"] == "user"][-1]
        turn = 0
        for each in reversed(body["messages"]):
            if each["role"] == "user":
                break
            turn += each["role"] == "assistant"
        message = {"role": "assistant", "content": "Done."}
        if "generate_csv_report" in str(asked) and turn < len(CALLS):
            name, arguments = CALLS[turn]
            function = {"name": name, "arguments": json.dumps(arguments)}
            message = {"role": "assistant", "content": "", "tool_calls": [
                {"id": f"c{turn}", "type": "function", "function": function}]}
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        if not body.get("stream"):
            self.reply({"id": "r", "model": "scripted", "choices": [choice], "usage": usage})
            return
        for number, call in enumerate(message.get("tool_calls", [])):
            call["index"] = number
        chunks = [{"id": "r", "model": "scripted", "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                  {"id": "r", "model": "scripted", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
                  {"id": "r", "model": "scripted", "choices": [], "usage": usage}]
        text = "".join(f"data: {json.dumps(chunk)}\\n\\n" for chunk in chunks) + "data: [DONE]\\n\\n"
        self.reply(text, "text/event-stream")
    def reply(self, content, kind="application/json"):
        data = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

class Server(socketserver.ThreadingTCPServer):  # HTTPServer asks the DNS for its own name first
    daemon_threads = True

Server(("0.0.0.0", 9000), Handler).serve_forever()
'''


class Stack:
    """The two containers, in a folder of a user's, and an endpoint in a container beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("docker-compose.yml", "configs"):
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
        for name in ("data", "skills"):
            (folder / name).mkdir()
            os.chown(folder / name, CALLER, CALLER)
        self.variables = {
            "POSTGRES_PASSWORD": PASSWORD,
            "OPENAI_API_KEY": "a-key",
            "OPENAI_BASE_URL": "http://endpoint:9000/v1",
            "DEFAULT_MODEL": "scripted",
            "HERMES_UID": str(CALLER),
            "HERMES_GID": str(CALLER),
            "HERMES_IMAGE": IMAGE,
            "HERMES_DB_IMAGE": images.DATABASE,
            "HERMES_PORT": "18080",
            "HERMES_DB_PORT": "15432",
        }
        self.compose = Compose(folder / "docker-compose.yml", self.variables, "hermes-lab-test")

    def start(self) -> None:
        self.compose.up()
        network = "hermes-lab-test_hermes-net"
        where = ("--network", network, "--network-alias", "endpoint")
        docker("rm", "--force", "hermes-lab-test-endpoint")
        docker("run", "-d", "--name", "hermes-lab-test-endpoint", *where, images.BASE, "python3", "-c", ENDPOINT)
        self.compose.healthy("hermes-db")
        self.compose.healthy("hermes-core")

    def stop(self, *, volumes: bool = False) -> None:
        docker("rm", "--force", "hermes-lab-test-endpoint")
        self.compose.down(volumes=volumes)

    def inside(self, *command: str) -> str:
        """The output of a command in the agent's container."""
        return docker("exec", "hermes-agent-core", *command)

    def sql(self, statement: str) -> str:
        asked = ("psql", "-U", "hermes_admin", "-d", "hermes_vault", "-tAc", statement)
        return docker("exec", "hermes-vector-db", *asked)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    if os.geteuid() != 0 or why_not():
        pytest.skip(why_not() or "only root can give folders to another user")
    images.build_base()
    images.build_database()
    images.build_lab(ROOT, IMAGE)
    folder = tmp_path_factory.mktemp("stack")
    stack = Stack(folder)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop(volumes=True)


@pytest.fixture(scope="module")
def said(stack: Stack) -> str:
    """What the terminal shows of the lab's conversation."""
    stack.sql("CREATE EXTENSION IF NOT EXISTS vector")
    return at_terminal(["docker", "exec", "-it", "hermes-agent-core", "hermes-cli"], ASKED)


def at_terminal(command: list[str], message: str) -> str:
    """Types a message at the prompt of a program, waits for the answer, and leaves; returns what it showed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    shown = b""

    def until(text: bytes) -> None:
        nonlocal shown
        start, deadline = len(shown), time.monotonic() + 300
        while text not in shown[start:]:
            assert time.monotonic() < deadline, shown.decode(errors="replace")
            if select.select([terminal], [], [], 1)[0]:
                shown += os.read(terminal, 65536)
                if b"\x1b[6n" in shown[start:]:
                    os.write(terminal, b"\x1b[1;1R")  # a terminal that is asked where its cursor is

    until(b"hermes>")
    os.write(terminal, message.encode() + b"\r")
    until(b"Done.")
    os.write(terminal, b"\x04")
    try:
        while data := os.read(terminal, 65536):
            shown += data
    except OSError:  # it has ended
        pass
    os.waitpid(pid, 0)
    return shown.decode(errors="replace")


def test_the_four_lines_are_on_the_terminal(said: str) -> None:
    found = [said.find(line) for line in LINES]
    assert -1 not in found, said
    assert found == sorted(found)


def test_the_skill_and_its_report_are_on_the_host_and_the_callers(said: str, stack: Stack) -> None:
    script, report = stack.folder / "skills/generate_csv_report.py", stack.folder / "data/march.csv"
    assert '"""Write sales as a CSV report.' in script.read_text()
    assert "filename: str, sales_data: dict" in script.read_text()
    assert list(csv.reader(report.read_text().splitlines())) == [
        ["Product", "Revenue"],
        ["Lamp", "120.5"],
        ["Desk", "899.0"],
    ]
    for path in (script, report):
        assert (path.stat().st_uid, path.stat().st_gid) == (CALLER, CALLER)


def test_the_memories_are_in_the_database(said: str, stack: Stack) -> None:
    assert int(stack.sql("SELECT count(*) FROM hermes_memories")) > 0


def test_a_sandbox_in_the_container_has_no_network_and_no_secret(stack: Stack) -> None:
    doctor = docker("exec", "hermes-agent-core", "hermes-lab", "doctor", "--json", ok=False)
    (sandbox,) = [each for each in json.loads(doctor[doctor.index("[") :]) if each["what"] == "sandbox"]
    assert sandbox["works"], sandbox
    inspected: dict[str, Any] = json.loads(docker("inspect", "hermes-agent-core"))[0]
    assert inspected["Config"]["User"] == f"{CALLER}:{CALLER}"
    assert not inspected["HostConfig"]["Privileged"]
    assert inspected["HostConfig"]["CapDrop"] == ["ALL"]
    assert {each["HostIp"] for each in inspected["HostConfig"]["PortBindings"]["8080/tcp"]} == {"127.0.0.1"}


def test_a_second_up_loses_nothing(said: str, stack: Stack) -> None:
    def kept() -> list[str]:
        commands = (("cat", "/app/http-key"), ("hermes-lab", "skills", "list"), ("hermes-lab", "sessions", "list"))
        return [stack.sql("SELECT count(*) FROM hermes_memories"), *(stack.inside(*command) for command in commands)]

    before = kept()
    assert "generate-csv-report" in before[2]
    stack.stop()
    stack.start()
    assert kept() == before


def test_without_the_security_options_nothing_runs(stack: Stack) -> None:
    user = f"{CALLER}:{CALLER}"
    variables = ["--env", "DEFAULT_MODEL=scripted", "--env", "OPENAI_BASE_URL=http://endpoint:9000/v1"]
    plain = ["run", "--rm", "--user", user, *variables, IMAGE, "hermes-cli", "Hello"]
    refused = docker(*plain, ok=False)
    assert "nothing runs without isolation" in refused
    assert refused.count("\n") == 0


@pytest.mark.parametrize("name", ["POSTGRES_PASSWORD", "DEFAULT_MODEL"])
def test_nothing_that_must_be_chosen_has_a_default(name: str) -> None:
    variables: Mapping[str, str] = {"POSTGRES_PASSWORD": "p", "DEFAULT_MODEL": "m", name: ""}
    with pytest.raises(Missing, match=name):
        Compose(ROOT / "docker-compose.yml", variables, "hermes-lab-test")


def test_compose_itself_takes_the_files(tmp_path: Path) -> None:
    """The real program reads them, where there is one."""
    program = ["docker", "compose"]
    if subprocess.run([*program, "version"], capture_output=True).returncode != 0:
        if not shutil.which("docker-compose"):
            pytest.skip("optional: no Compose here")
        program = ["docker-compose"]
    for name in ("docker-compose.yml", "docker-compose.lab.yml"):
        values = {"POSTGRES_PASSWORD": "p", "DEFAULT_MODEL": "m"}
        command = [*program, "-f", str(ROOT / name), "config"]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **values})
        assert done.returncode == 0, done.stderr
