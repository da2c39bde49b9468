"""A small program with everything that the lab needs of one: a loop around a shell tool, skills, notes, sessions, and a
review of its own. It is one file for the Python of the system, and speaks chat completions."""

import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from hermes_lab.harness.program import Ended, Program, Settings, Shell, Start
from hermes_lab.types.memory import Target

SCRIPT = r"""#!/usr/bin/python3
import json, os, subprocess, sys, threading, time, urllib.error, urllib.request
from pathlib import Path

HOME, FAULT = Path(os.environ["HOME"]), os.environ["FAKE_FAULT"]
TOOLS = [{"type": "function", "function": {"name": "sh", "description": "Runs a command.", "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}]

def ask(messages, tools=TOOLS):
    body = json.dumps({"model": os.environ["FAKE_MODEL"], "messages": messages, "tools": tools}).encode()
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["FAKE_KEY"]}
    request = urllib.request.Request(os.environ["FAKE_URL"] + "/v1/chat/completions", body, headers)
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["choices"][0]["message"]

def work(messages):
    while True:
        said = ask(messages)
        messages.append(said)
        for call in said.get("tool_calls") or ():
            command = json.loads(call["function"]["arguments"])["command"]
            done = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, input="")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})
        if not said.get("tool_calls"):
            return said.get("content") or ""

def skills():
    found = sorted((HOME / "skills").glob("*/SKILL.md")) if (HOME / "skills").is_dir() else []
    return "\n".join("- %s: %s" % tuple(line.split(": ", 1)[1] for line in path.read_text().splitlines()[1:3])
                     for path in found)

def serve():
    while line := sys.stdin.readline():
        request = json.loads(line)
        result = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}.get(request["method"], {})
        if request["method"] == "session/prompt":
            work([{"role": "user", "content": request["params"]["prompt"][0]["text"]}])
            if FAULT == "dies":
                os._exit(9)
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)

def chatter(late):
    time.sleep(late)
    while True:
        ask([{"role": "user", "content": "A title, please."}], [])

def main():
    if sys.argv[1] == "serve":
        return serve()
    if FAULT == "overlaps":
        for late in (0, 0.05, 0.1, 0.15, 0.2, 0.25):
            threading.Thread(target=chatter, args=(late,)).start()
    if FAULT == "crash":
        sys.exit("the configuration is broken")
    if FAULT == "hang":
        time.sleep(3600)
    prompt, session = sys.argv[1], HOME / "session.json"
    notes = (HOME / "NOTES.md").read_text() if (HOME / "NOTES.md").exists() else ""
    memory = HOME / "db" / "seen.bin"
    past = memory.read_bytes().decode("latin-1") if memory.exists() else ""
    messages = [{"role": "system", "content": "Skills:\n%s\nNotes:\n%s\nPast: %s" % (skills(), notes, past)}]
    if FAULT == "unlisted":
        del messages[0]
    if sys.argv[2:] == ["--resume"] and FAULT != "forgets":
        messages = json.loads(session.read_text())
    if FAULT == "title":
        ask([{"role": "user", "content": "A title for: " + prompt}], [])
    added = "<context>Today is Monday.</context>\n" if FAULT == "adds" else ""
    messages.append({"role": "user", "content": added + prompt})
    try:
        answer = work(messages)
        session.write_text(json.dumps(messages))
        if not sys.argv[2:]:
            memory.parent.mkdir(exist_ok=True)
            memory.write_bytes((past + prompt[:40] + "\xff;").encode("latin-1", "replace"))
        if os.environ["FAKE_REVIEW"] != "0":
            work([*messages, {"role": "user", "content": "OWN REVIEW of the work"}])
    except urllib.error.HTTPError as error:
        if FAULT != "lies":
            sys.exit("API error %d: %s" % (error.code, error.read().decode()))
        answer = "All done."
    print(answer)

main()
"""


class FakeSettings(Settings):
    """`fault`: what it does: crash, hang, lies, title, adds (the date before the prompt), unlisted, forgets,
    dies, overlaps."""

    fault: str = ""


class FakeProgram(Program):
    """See the module."""

    name = "fake"
    summary = "a test double"
    dialect = "chat"
    executable = "fake-agent"
    shell = Shell("sh")
    package = "fake-agent"
    install = "write it"
    skills = "skills"
    notes: ClassVar[Mapping[Target, str]] = {"memory": "NOTES.md"}
    settings = FakeSettings
    learns = True
    state = ("db/*",)
    writers = frozenset({"sh"})

    def environment(self, start: Start) -> Mapping[str, str]:
        return {
            "FAKE_URL": start.url,
            "FAKE_KEY": start.key,
            "FAKE_MODEL": start.model,
            "FAKE_FAULT": start.settings.fault,
            "FAKE_REVIEW": str(start.review_after),
        }

    def command(self, start: Start, prompt: str, session: str) -> Sequence[str]:
        return [prompt, "--resume"] if session else [prompt]

    def is_review(self, text: str) -> bool:
        return text.startswith("OWN REVIEW")

    def session(self, ended: Ended) -> str:
        return "last"


class AskedProgram(FakeProgram):
    """The same without a review of its own."""

    name = "asked"
    learns = False
    state = ()


class ForgetfulProgram(AskedProgram):
    """The same without sessions."""

    name = "forgetful"
    resumes = False


class ServingProgram(AskedProgram):
    """The same by the Agent Client Protocol."""

    name = "serving"

    def server(self, start: Start) -> Sequence[str]:
        return ["serve"]


class ConfusedProgram(AskedProgram):
    """The same, of which the lab cannot tell the session."""

    name = "confused"

    def session(self, ended: Ended) -> str:
        return ended.stderr.splitlines()[-1]


def install(folder: Path) -> Path:
    """Writes the executable, and the entry points by which the lab finds the programs; `folder` must be importable."""
    tests = Path(__file__).parents[1]
    info = folder / "fake_programs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-programs\nVersion: 1\n")
    points = (
        "fake = fakes.program:FakeProgram",
        "asked = fakes.program:AskedProgram",
        "forgetful = fakes.program:ForgetfulProgram",
        "serving = fakes.program:ServingProgram",
        "confused = fakes.program:ConfusedProgram",
    )
    (info / "entry_points.txt").write_text("[hermes_lab.programs]\n" + "\n".join(points) + "\n")
    (folder / "sitecustomize.py").write_text(f"import sys; sys.path.append({str(tests)!r})\n")
    executable = folder / "installed" / "bin" / "fake-agent"
    executable.parent.mkdir(parents=True)
    executable.write_text(SCRIPT)
    executable.chmod(executable.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    for parent in (executable.parent, executable.parent.parent):
        parent.chmod(0o755)
    return executable.parents[1]
