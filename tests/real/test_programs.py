"""The real programs in the lab's arms: hermes-agent, Claude Code, Codex, Qwen Code, OpenCode, mini-swe-agent.

`make programs` installs them; HERMES_LAB_PROGRAMS is their folder.
"""

import json
import os
import shutil
import socket
import subprocess
import time
from itertools import takewhile
from pathlib import Path

import pytest

import hermes_lab
from hermes_lab.harness.installed import find_executable
from hermes_lab.harness.programs import find_program
from hermes_lab.records import read_episodes
from hermes_lab.runners.agents import check_program
from hermes_lab.types import Episode

pytestmark = pytest.mark.long

PROGRAMS = Path(os.environ.get("HERMES_LAB_PROGRAMS", ".venv/programs")).absolute()
AT = {"hermes": "hermes", "mini-swe-agent": "mini", **dict.fromkeys(("claude", "codex", "qwen", "opencode"), "npm")}
CALIBRATION = ("configs/real-hermes.yaml", "learning.worlds=1", "learning.rounds=2")
ARMS = (("learning.arms=[on]", "learning.rounds=3"), ("learning.arms=[off,placebo,oracle]",))
"""All four. What the arm `on` writes in two tasks helps it in the third."""


def installed(name: str) -> str:
    at = PROGRAMS / AT[name]
    executable = find_program(name).executable
    if not any((at / below / executable).exists() for below in ("bin", "node_modules/.bin")):
        pytest.skip(f"optional: {name} is not installed (make programs)")
    if AT[name] == "npm" and _node() < 20:
        pytest.skip("optional: needs Node.js 20")
    return str(at)


def _node() -> int:
    node = shutil.which("node")
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout if node else "v0.0"
    return int(told.removeprefix("v").split(".")[0])


@pytest.mark.parametrize("name", AT)
def test_every_program_passes_the_check(name: str) -> None:
    steps = check_program(name, installed(name))
    assert [step for step in steps if step.works is False] == []
    assert steps[0].detail.split(",")[0] != "version unknown"


def calibration(tmp_path: Path, out: str, *more: str) -> list[Episode]:
    hermes_lab.experiment(*CALIBRATION, *more, out=tmp_path / out)
    return sorted(read_episodes(tmp_path / out), key=lambda episode: episode.key)


def in_all_arms(tmp_path: Path, *more: str) -> list[Episode]:
    return [episode for out, arms in enumerate(ARMS) for episode in calibration(tmp_path, str(out), *more, *arms)]


@pytest.fixture(scope="module")
def real_hermes(tmp_path_factory: pytest.TempPathFactory) -> list[Episode]:
    """The real hermes-agent."""
    return in_all_arms(tmp_path_factory.mktemp("real"), f"agent.at={installed('hermes')}")


def test_the_real_hermes_has_the_outcomes_of_the_own_loop(real_hermes: list[Episode], tmp_path: Path) -> None:
    own = in_all_arms(tmp_path, "agent.program=")
    assert len(real_hermes) == 9
    for ours, other in zip(own, real_hermes, strict=True):
        assert (other.key, other.status) == (ours.key, "ok")
        assert (other.success, len(other.verdicts)) == (ours.success, len(ours.verdicts))
        # Its own reviews have written what those of the lab's own loop have.
        assert other.skills.snapshot == ours.skills.snapshot
    of_arm = {arm: [e for e in real_hermes if e.lane.startswith(arm)] for arm in ("off", "placebo", "oracle", "on")}
    solved = {arm: [episode.success for episode in episodes] for arm, episodes in of_arm.items()}
    assert solved["off"] == solved["placebo"]
    assert all(solved["oracle"])
    assert not any(solved["off"])
    assert solved["on"][-1], "what its reviews had written helped"


def test_two_runs_of_the_real_hermes_ask_the_same(real_hermes: list[Episode], tmp_path: Path) -> None:
    """Less the day, which it tells the model."""
    again = calibration(tmp_path, "again", f"agent.at={installed('hermes')}", "learning.arms=[on]")
    volatile = find_program("hermes").volatile
    first, second = (
        [
            (volatile(message.content), [(call.name, call.arguments) for call in message.tool_calls])
            for episode in episodes
            for trajectory in (episode.trajectory, episode.review.trajectory if episode.review else None)
            for message in (trajectory.messages if trajectory else ())
        ]
        for episodes in ([each for each in real_hermes if each.lane.startswith("on") and each.round < 2], again)
    )
    assert first == second
    assert len(first) > 20


def test_a_review_that_takes_five_seconds_is_finished_and_harvested(tmp_path: Path) -> None:
    """`hermes chat -q` would end it with its process."""
    slow = f"model.name={__name__.rpartition('.')[2]}:slow_reviewer"
    (episode,) = calibration(
        tmp_path,
        "slow",
        f"agent.at={installed('hermes')}",
        slow,
        "suite.options={ruled: 1, plain: 0}",
        "learning.rounds=1",
        "learning.arms=[on]",
    )
    assert episode.review is not None
    assert episode.review.seconds >= 5
    assert [write.action for write in episode.review.writes] == ["create"]


def slow_reviewer() -> object:
    """The learner, whose reviews take five seconds."""
    from hermes_lab.agent.review import REVIEW_REQUEST
    from hermes_lab.models.scripted import TaskAwarePolicy
    from hermes_lab.tasks.learner import learner

    def slowed(policy):  # type: ignore[no-untyped-def]
        def answer(messages):  # type: ignore[no-untyped-def]
            if messages[-1].content == REVIEW_REQUEST:
                time.sleep(5)
            return policy(messages)

        return answer

    inner = learner()
    return TaskAwarePolicy(lambda task: slowed(inner.for_task(task)))


ATTACKS = r"""
try() {
  if timeout 5 bash -c "$2" >/dev/null 2>&1; then echo "BREACH $1"; else echo "kept $1"; fi
}
try host-port "exec 3<>/dev/tcp/127.0.0.1/$HOST_PORT"
for address in 1.1.1.1 10.0.0.1 169.254.169.254 192.168.1.1; do try "net $address" "exec 3<>/dev/tcp/$address/80"; done
try names "getent hosts example.com"
try shadow "cat /etc/shadow"
try homes "ls /root/.ssh /home/* /root/.bashrc"
try key "env | grep c4[n]ary; grep -rsl c4[n]ary /proc/*/environ ~ | grep ."
try install "echo x >> $(readlink -f "$PROGRAM")"
try install-folder "touch $(dirname "$PROGRAM")/planted"
try docker "ls /var/run/docker.sock"
try mount "mount -t tmpfs none /mnt"
try trace "head -c 1 /proc/1/mem"
try shell-of-harness "ls /proc/1/fd/ | grep ."
kill -9 1
echo finished
"""


@pytest.mark.parametrize("name", AT)
def test_a_programs_shell_reaches_nothing_but_the_proxy(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = installed(name)
    executable = find_executable(find_program(name), at)
    suite, out = tmp_path / "tasks.jsonl", tmp_path / "run"
    monkeypatch.setenv("OPENAI_API_KEY", "c4nary")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        script = f"export HOST_PORT={listener.getsockname()[1]} PROGRAM={executable}\n{ATTACKS}"
        suite.write_text(json.dumps({"id": "a", "prompt": "Attack.", "files": {"attack.sh": script}}))
        model = {"provider": "scripted", "name": f"{__name__.rpartition('.')[2]}:attacker"}
        agent = {"program": name, "at": at}
        hermes_lab.run({"model": model, "agent": agent, "suite": {"path": str(suite)}}, out=out)
    (episode,) = read_episodes(out)
    assert episode.trajectory is not None, episode.error
    output = "\n".join(r.content for m in episode.trajectory.messages for r in m.results)
    assert "BREACH" not in output
    assert output.count("kept ") >= 15, output
    assert "finished" in output


def attacker() -> object:
    """A policy that runs the attacks."""
    from hermes_lab.types import Message, ToolCall

    def answer(messages):  # type: ignore[no-untyped-def]
        if any(message.results for message in messages):
            return Message(role="assistant", content="Done.")
        return Message(role="assistant", tool_calls=(ToolCall("c", "terminal", {"command": "bash attack.sh"}),))

    return answer


@pytest.mark.parametrize(("name", "policy"), [("hermes", "searcher"), ("claude", "keeper")])
def test_a_programs_own_memory_is_carried(name: str, policy: str, tmp_path: Path) -> None:
    """Hermes-agent finds earlier sessions in its database; Claude Code is told its memory in every session."""
    episodes = calibration(
        tmp_path,
        "run",
        f"agent.program={name}",
        f"agent.at={installed(name)}",
        "agent.carry_state=true",
        "agent.review=none",
        f"model.name={__name__.rpartition('.')[2]}:{policy}",
        "learning.arms=[off,on]",
    )
    recalled = {(episode.lane.partition("-")[0], episode.round): SECRET in _told(episode) for episode in episodes}
    assert recalled == {("off", 0): False, ("off", 1): False, ("on", 0): False, ("on", 1): True}


SECRET = "xyl0phone"
REMEMBER = f"""\
folder="$CLAUDE_CONFIG_DIR/projects/$(pwd | tr / -)/memory"
mkdir -p "$folder" && echo "- The word is {SECRET}." >"$folder/MEMORY.md\""""


def _told(episode: Episode) -> str:
    """What the program told its model before the model's first answer."""
    assert episode.trajectory is not None, episode.error
    asks = takewhile(lambda m: m.role != "assistant" or m.tool_calls, episode.trajectory.messages)
    messages = [message for message in asks if message.role != "assistant"]
    return "\n".join(text for m in messages for text in (m.content, *(result.content for result in m.results)))


def searcher() -> object:
    """A policy that searches earlier sessions for the word, and then says it."""
    return _calls_and_says("session_search", {"query": "word"})


def keeper() -> object:
    """A policy that writes the word to Claude Code's memory."""
    return _calls_and_says("terminal", {"command": REMEMBER})


def _calls_and_says(tool: str, arguments: dict[str, str]) -> object:
    from hermes_lab.types import Message, ToolCall

    def answer(messages):  # type: ignore[no-untyped-def]
        if any(message.results for message in messages):
            return Message(role="assistant", content=f"The word is {SECRET}.")
        return Message(role="assistant", tool_calls=(ToolCall("c", tool, arguments),))

    return answer
