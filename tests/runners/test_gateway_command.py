"""`hermes-lab gateway` as a user calls it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fakes.command import lab

from hermes_lab.config.gateway import GatewayConfig
from hermes_lab.errors import ConfigError
from hermes_lab.gateway.platform import Sender
from hermes_lab.gateway.platforms import open_platform
from hermes_lab.gateway.store import GatewayStore
from hermes_lab.runners.commands.gateway import _log_level

MODEL = ("-c", "model={provider: scripted, name: 'hermes_lab.tasks.learner:noop'}")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "gateway.platforms: is empty"),
        (("gateway.platforms=[telegramm]",), "there is no platform 'telegramm'; did you mean telegram?"),
        (("gateway.platforms=[http,http]",), "'http' is listed twice"),
        (("gateway.platforms=[http]", "gateway.home=telegram:dm:7"), "gateway.home: telegram:dm:7: gateway.platforms"),
        (("gateway.platforms=[http]", "model.provider=vllm"), "model.provider: vllm would load a model for every chat"),
        (("gateway.platforms=[http]", "gateway.http.port=80800"), "gateway.http.port"),
        (("gateway.platforms=[matrix]",), "gateway.matrix.homeserver"),
        (("gateway.platforms=[email]",), "gateway.email"),
    ],
)
def test_what_cannot_run_is_one_line(home: Path, given: tuple[str, ...], message: str) -> None:
    chosen = [part for each in given for part in ("-c", each)]
    done = lab("gateway", "run", *MODEL, *chosen)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (home / "gateway.json").exists()


def test_a_wrong_log_level_is_one_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_LOG", "loud")
    done = lab("gateway", "run", *MODEL, "-c", "gateway.platforms=[http]")
    message = "HERMES_LOG: there is no level 'loud'; choose from: DEBUG, INFO, WARNING, ERROR"
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr


@pytest.mark.parametrize(("given", "level"), [("debug", "DEBUG"), ("", "INFO"), ("Warning", "WARNING")])
def test_log_levels_are_read_in_any_case(monkeypatch: pytest.MonkeyPatch, given: str, level: str) -> None:
    monkeypatch.setenv("HERMES_LOG", given)
    assert _log_level() == level


def test_it_runs_says_so_and_stops(home: Path) -> None:
    assert lab("gateway", "status").returncode == 3
    settings = ("-c", "gateway.platforms=[http,telegram]", "-c", "gateway.http.port=0")
    command = [sys.executable, "-m", "hermes_lab", "gateway", "run", *MODEL, *settings]
    env = os.environ | {"HERMES_HTTP_KEY": "key"}
    env.pop("TELEGRAM_BOT_TOKEN", None)
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while (asked := lab("gateway", "status", "--json")).returncode or "connecting" in asked.stdout:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.2)
        status = json.loads(asked.stdout)
        assert {name: each["state"] for name, each in status["platforms"].items()} == {"http": "up", "telegram": "down"}
        assert "TELEGRAM_BOT_TOKEN" in status["platforms"]["telegram"]["why"]
        shown = lab("gateway", "status").stdout
        assert "telegram  down" in shown
        second = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert second.returncode == 2
        assert second.stderr.count("\n") == 1
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "http is up" in said
    assert lab("gateway", "status").returncode == 3


def test_a_restart_keeps_the_process_and_its_options(home: Path) -> None:
    assert lab("gateway", "restart").returncode == 3
    assert lab("gateway", "restart", "--if-older").returncode == 0
    settings = ("-c", "gateway.platforms=[http]", "-c", "gateway.http.port=0")
    command = [sys.executable, "-m", "hermes_lab", "gateway", "run", *MODEL, *settings]
    process = subprocess.Popen(command, env=os.environ | {"HERMES_HTTP_KEY": "key"}, stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while (asked := lab("gateway", "status", "--json")).returncode:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.2)
        before = json.loads(asked.stdout)
        assert lab("gateway", "restart", "--if-older").stdout == ""
        assert "restarted with version" in lab("gateway", "restart").stdout
        after = json.loads(lab("gateway", "status", "--json").stdout)
        assert after["pid"] == before["pid"] == process.pid
        assert after["started"] != before["started"]
        assert after["platforms"].keys() == {"http"}
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


STAND_IN = """
import json, os, sys, time
home, then = sys.argv[1:]
def status(**changes):
    known = {"pid": os.getpid(), "version": "0.1.0", "installation": "/old/place", "started": "a", "working": 0}
    with open(home + "/new", "w") as file:
        json.dump({**known, "heartbeat": time.time() + 600, "ended": False, **changes}, file)
    os.replace(home + "/new", home + "/gateway.json")
os.makedirs(home + "/gateway")
status()
while not os.path.exists(home + "/gateway/restart"):
    time.sleep(0.05)
if then == "dies":
    sys.exit(1)
status(ended=True)
if then == "comes back":
    status(started="b")
if then != "ends":
    input()
"""


@pytest.mark.parametrize(
    ("then", "code", "said"),
    [
        ("dies", 3, "the gateway ended and has not come back"),
        ("ends", 3, "the gateway ended and has not come back"),
        ("hangs", 3, "the gateway ended and has not come back"),
        ("comes back", 0, "restarted with version 0.1.0 from /old/place; to change to "),
    ],
)
def test_how_a_restart_ended_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, then: str, code: int, said: str
) -> None:
    """The process that ended is still in the process table, as where nobody waits for it."""
    monkeypatch.setattr("hermes_lab.runners.commands.gateway._BACK_SECONDS", 0.5)
    monkeypatch.setattr("hermes_lab.runners.commands.gateway._RESTART_SECONDS", 3 if then == "hangs" else 60)
    with subprocess.Popen([sys.executable, "-c", STAND_IN, str(home), then], stdin=subprocess.PIPE) as process:
        while not (home / "gateway.json").exists():
            assert process.poll() is None
            time.sleep(0.05)
        done = lab("gateway", "restart")
        process.communicate()
    assert done.returncode == code
    assert said in done.stdout


def test_a_person_is_paired_and_unpaired_at_the_terminal(home: Path) -> None:
    store = GatewayStore(home)
    store.add_pairing("telegram", Sender("7", "Ann\x1b[31m"), "K7M2P9QX", since=0, most=5)
    assert "Ann" in (listed := lab("gateway", "pair").stdout)
    assert "\x1b" not in listed
    assert "K7M2P9QX" not in listed
    assert lab("gateway", "pair", "WRONGONE").returncode == 2
    assert "let in: 7 on telegram" in lab("gateway", "pair", "k7m2-p9qx").stdout
    assert store.is_allowed("telegram", "7")
    assert lab("gateway", "unpair", "telegram", "7").returncode == 0
    assert lab("gateway", "unpair", "telegram", "7").returncode == 2
    assert not store.is_allowed("telegram", "7")


CODE = """
class Mine:
    name = "{name}"
    limit = hint = None
    idempotent = True
    def __init__(self, options):
        self.options = options
        {body}
"""


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("mine", "pass", ""),
        ("other", "pass", r"mine \(lab_platform:Mine\) is named 'other'"),
        ("mine", "1 / 0", r"mine \(lab_platform:Mine\) cannot be loaded: ZeroDivisionError: division by zero"),
        ("mine", "(", r"mine \(lab_platform:Mine\) cannot be loaded: SyntaxError"),
    ],
)
def test_a_platform_of_another_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, body: str, message: str
) -> None:
    info = tmp_path / "lab_platform-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab_platform\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[hermes_lab.platforms]\nmine = lab_platform:Mine\n")
    (tmp_path / "lab_platform.py").write_text(CODE.format(name=name, body=body))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "lab_platform", raising=False)
    config = GatewayConfig(options={"mine": {"allow": ["7"]}})
    if message:
        with pytest.raises(ConfigError, match=message):
            open_platform("mine", config)
    else:
        assert open_platform("mine", config).options == {"allow": ["7"]}  # type: ignore[attr-defined]
    monkeypatch.delitem(sys.modules, "lab_platform", raising=False)
