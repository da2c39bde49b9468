"""What the container of docker-compose.yml reads and checks before the agent starts."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from fakes.command import lab

from hermes_lab.config.gateway import GatewayConfig
from hermes_lab.config.home_file import load_home_config
from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.gateway.restart import STATUS
from hermes_lab.runners import container
from hermes_lab.runners.container import check_user, command, http_key, prepare, settings
from hermes_lab.sandbox.docker_seccomp import seccomp_profile

ROOT = Path(__file__).parents[2]
VARIABLES = {"DEFAULT_MODEL": "my-model", "PERSISTENT_DIR": "/app/data", "OPENAI_API_KEY": "sk-1"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("data", "skills"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("given", "provider", "address"),
    [
        ({}, "openai", "https://api.openai.com/v1"),
        ({"OPENAI_BASE_URL": "http://here:8000/v1", "OPENAI_API_KEY": ""}, "openai", "http://here:8000/v1"),
        ({"LLM_PROVIDER": "responses"}, "responses", "https://api.openai.com/v1"),
        ({"LLM_PROVIDER": "anthropic", "ANTHROPIC_API_KEY": "a"}, "anthropic", "https://api.anthropic.com/v1"),
    ],
)
def test_the_variables_are_settings_of_a_chat(home: Path, given: dict[str, str], provider: str, address: str) -> None:
    options = list(settings({**VARIABLES, "MEMORY_DB_URL": "postgresql://secret", **given}))
    assert "secret" not in str(options)
    config = load_home_config(home, options)
    assert (config.model.provider, config.model.name, config.model.base_url) == (provider, "my-model", address)
    assert (config.memory.vectors, config.memory.url_env) == ("postgres", "MEMORY_DB_URL")
    assert not config.sandbox.workspace
    assert load_home_config(home, list(settings(VARIABLES))).memory.vectors == "off"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"DEFAULT_MODEL": ""}, "DEFAULT_MODEL: is not set"),
        ({"LLM_PROVIDER": "ollama"}, "'ollama'"),
        (
            {"OPENAI_API_KEY": ""},
            r"OPENAI_API_KEY: is not set, and https://api\.openai\.com/v1 needs it; set it in \.env",
        ),
        ({"LLM_PROVIDER": "anthropic"}, r"ANTHROPIC_API_KEY: is not set.* or set ANTHROPIC_BASE_URL to an endpoint"),
    ],
)
def test_what_is_missing_or_unknown_is_said(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        list(settings({**VARIABLES, **given}))


def test_the_service_is_the_gateway_and_the_prompt_is_hermes(home: Path) -> None:
    gateway, run, *options = command(["agent"], {**VARIABLES, "HERMES_PLATFORMS": "telegram,http"})
    assert (gateway, run) == ("gateway", "run")
    config = load_home_config(home, options[1::2])
    assert config.gateway.platforms == ("telegram", "http")
    assert (config.gateway.http.host, config.gateway.http.port) == ("0.0.0.0", 8080)
    chat, *options = command(["cli", "Hello"], VARIABLES)
    assert (chat, options[-1]) == ("chat", "Hello")
    config = load_home_config(home, options[1:-1:2])
    assert config.display.prompt == "hermes> "
    assert config.sandbox.workspace == "/app/data"
    with pytest.raises(ConfigError, match="agent"):
        command([], VARIABLES)


def test_a_folder_that_cannot_be_written_is_named_with_the_fix(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"none: user \d+ cannot write there.*HERMES_UID"):
        prepare(home, {"PERSISTENT_DIR": str(home / "none")})


def test_nothing_starts_without_isolation(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(config: object) -> None:
        raise SandboxError("sandbox: bwrap: No permissions to create a new namespace")

    monkeypatch.setattr(container, "probe", refused)
    with pytest.raises(SandboxError, match=r"new namespace; nothing runs without isolation"):
        prepare(home, {"PERSISTENT_DIR": str(home / "data")})
    assert not (home / "skills" / ".hermes").exists()


def test_prepared_skills_link_compiled_scripts(home: Path) -> None:
    prepare(home, {"PERSISTENT_DIR": str(home / "data")})
    assert (home / "skills" / ".hermes" / "links").exists()


def test_the_key_of_http_is_made_once_and_private(home: Path) -> None:
    key = http_key(home)
    assert len(key) > 30
    assert http_key(home) == key
    assert (home / "http-key").stat().st_mode & 0o777 == 0o600


def test_an_empty_key_is_made_again(home: Path) -> None:
    """A kill or a full disk may have left the file of an older version empty."""
    (home / "http-key").touch()
    assert len(key := http_key(home)) > 30
    assert (home / "http-key").read_text() == key
    assert http_key(home) == key


def test_a_full_disk_leaves_no_key_and_one_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        http_key(home)
    assert sorted(path.name for path in home.iterdir()) == ["data", "skills"]


@pytest.fixture
def stranger(home: Path) -> Iterator[int]:
    """Has the test run as an ordinary user."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    user = 4242
    for path in (home, home / "data", home / "skills"):
        os.chown(path, user, user)
    for path in (*home.parents, home):
        if path != Path("/tmp") and path.is_relative_to("/tmp"):
            path.chmod(0o755)
    os.setegid(user)
    os.seteuid(user)
    yield user
    os.seteuid(0)
    os.setegid(0)


@pytest.mark.parametrize(("name", "mode"), [("http-key", 0o600), ("sessions.db", 0o644), ("gateway/inbox", 0o700)])
def test_a_file_of_another_user_is_named_with_the_fix(home: Path, stranger: int, name: str, mode: int) -> None:
    os.seteuid(0)
    (home / name).parent.mkdir(exist_ok=True)
    (home / name).write_text("old")
    (home / name).chmod(mode)
    (home / "config.yaml").write_text("{}")  # as `docker cp` leaves it; to read it is enough
    os.seteuid(stranger)
    wanted = f"{name.split('/')[0]}.*: belongs to user 0, and this is user 4242.* chown -R 4242:4242 {home}"
    with pytest.raises(ConfigError, match=wanted) as caught:
        prepare(home, {"PERSISTENT_DIR": str(home / "data")})
    assert "\n" not in str(caught.value)


def test_root_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(ConfigError, match=r"root: set HERMES_UID=\$\(id -u\)"):
        check_user()
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    check_user()


@pytest.mark.parametrize("password", ["p@ss", "p/ss", "p:ss", "p#ss", "p?ss", "p%41", "p ss", "pä"])
def test_a_password_that_is_no_part_of_an_address_is_refused(password: str) -> None:
    with pytest.raises(ConfigError, match="POSTGRES_PASSWORD: has characters") as caught:
        command(["agent"], {**VARIABLES, "POSTGRES_PASSWORD": password})
    assert password not in str(caught.value)
    command(["agent"], {**VARIABLES, "POSTGRES_PASSWORD": "Az09-._~"})


_MAIN = "from hermes_lab.runners.container import main; main()"
LOCAL = "sandbox.backend=local -c sandbox.allow_local=true"
SSH = "sandbox.backend=ssh -c sandbox.ssh.host=host.invalid -c sandbox.ssh.isolation=none"


@pytest.mark.parametrize("given", [LOCAL, SSH])
@pytest.mark.parametrize("where", ["options", "config.yaml"])
def test_no_chat_and_no_gateway_starts_in_the_image_without_isolation(home: Path, given: str, where: str) -> None:
    settings = given.split(" -c ")
    if where == "config.yaml":
        content: dict[str, object] = {}
        for setting in settings:
            at, _, value = setting.partition("=")
            *path, last = at.split(".")
            section = content
            for part in path:
                section = section.setdefault(part, {})  # type: ignore[assignment]
            section[last] = yaml.safe_load(value)
        (home / "config.yaml").write_text(yaml.safe_dump(content))
    options = [part for each in settings for part in ("-c", each)] if where == "options" else []
    model = ("-c", "model={provider: scripted, name: 'hermes_lab.tasks.learner:noop'}")
    image = {"HERMES_LAB_IMAGE": "1", "HERMES_HOME": str(home), "HERMES_HTTP_KEY": "key"}
    for asked in (["chat", "Hello"], ["gateway", "run", "-c", "gateway.platforms=[http]"]):
        done = lab(*asked, *model, *options, **image)
        assert (done.returncode, done.stderr.count("nothing runs without isolation in this container")) == (2, 1)


def test_the_program_says_what_is_wrong_in_one_line(home: Path) -> None:
    environment = {**os.environ, "HERMES_HOME": str(home), "DEFAULT_MODEL": "", "LLM_PROVIDER": ""}
    asked = [sys.executable, "-m", "hermes_lab.runners.container", "cli"]
    done = subprocess.run(asked, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "DEFAULT_MODEL: is not set" in done.stderr


def test_the_seccomp_profile_is_what_the_code_says() -> None:
    written = json.loads((ROOT / "configs/docker/seccomp.json").read_text())
    assert written == json.loads(seccomp_profile(nested=True)), (
        "write it again: json.dumps(json.loads(seccomp_profile(nested=True)), indent=1)"
    )
    plain = json.loads(seccomp_profile())
    assert not any("mount" in rule["names"] for rule in plain["syscalls"])


def test_the_tokens_of_every_platform_that_the_image_has_reach_the_agent() -> None:
    (extras,) = re.findall(r"^ARG EXTRAS=(.*)$", (ROOT / "Dockerfile").read_text(), re.M)
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["hermes-core"]
    config = GatewayConfig()
    platforms = {"telegram": config.telegram, "slack": config.slack, "email": config.email, "matrix": config.matrix}
    of_image = [config.discord, *(each for name, each in platforms.items() if name in extras.split(","))]
    read = {value for each in of_image for name, value in each.model_dump().items() if name.endswith("_env")}
    assert {config.discord.token_env, config.slack.app_token_env} <= read <= service["environment"].keys()


def test_the_lab_in_a_container_refuses_root_and_runs_any_command_of_others(tmp_path: Path) -> None:
    services = yaml.safe_load((ROOT / "docker-compose.lab.yml").read_text())["services"]
    program, *words = services["lab"]["entrypoint"]
    assert (program, services["view"]["entrypoint"]) == ("python", services["lab"]["entrypoint"])
    assert all("test" in services[name]["healthcheck"] for name in ("view", "vllm"))
    command = [sys.executable, *words, "tools", "list"]
    environment = {**os.environ, "HERMES_HOME": str(tmp_path / "none"), "DEFAULT_MODEL": ""}
    if os.geteuid() == 0:
        refused = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "this is root: set HERMES_UID=$(id -u)" in refused.stderr
        command = [sys.executable, "-c", f"import os; os.geteuid = lambda: 1; {_MAIN}", words[-1], *command[-2:]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, "read_file" in done.stdout) == (0, True), done.stderr


def test_the_compose_file_is_that_of_the_lab() -> None:
    content = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    services = content["services"]
    assert {name: each["container_name"] for name, each in services.items()} == {
        "hermes-db": "hermes-vector-db",
        "hermes-core": "hermes-agent-core",
    }
    assert services["hermes-db"]["environment"].keys() == {"POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB"}
    assert {"LLM_PROVIDER", "OPENAI_API_KEY", "DEFAULT_MODEL", "MEMORY_DB_URL", "PERSISTENT_DIR"} <= services[
        "hermes-core"
    ]["environment"].keys()
    assert {"./data:/app/data", "./skills:/app/skills"} <= set(services["hermes-core"]["volumes"])
    assert all(port.startswith("127.0.0.1:") for each in services.values() for port in each["ports"])
    assert list(content["networks"]) == ["hermes-net"]
    named = set(re.findall(r"^#? ?(\w+)=", (ROOT / "configs/docker/env.example").read_text(), re.M))
    read = set(re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text()))
    assert named == read - {"HERMES_IMAGE", "HERMES_DB_IMAGE"}  # of the tests
    filled = re.findall(
        r"^(POSTGRES_PASSWORD|OPENAI_API_KEY)=(.*)$", (ROOT / "configs/docker/env.example").read_text(), re.M
    )
    assert all(not value for _, value in filled)


@pytest.mark.parametrize(
    ("changed", "healthy"),
    [
        ({}, True),
        ({"platforms": {"http": {"state": "connecting"}}}, False),
        ({"platforms": {"telegram": {"state": "down", "why": "no network"}}, "cron": {"state": "up"}}, False),
        ({"platforms": {"telegram": {"state": "down", "why": "no network"}, "http": {"state": "up"}}}, True),
        ({"platforms": {"telegram": {"state": "up"}}}, True),
        ({"ended": True}, False),
        ({"heartbeat": time.time() - 60}, False),
        (None, False),
    ],
)
def test_the_container_is_healthy_while_the_gateway_works_and_a_platform_is_connected(
    tmp_path: Path, changed: dict[str, object] | None, healthy: bool
) -> None:
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["hermes-core"]
    kind, *check = service["healthcheck"]["test"]
    assert kind == "CMD"
    if changed is not None:
        status = {"ended": False, "heartbeat": time.time(), "platforms": {"http": {"state": "up", "why": ""}}}
        (tmp_path / STATUS).write_text(json.dumps({**status, **changed}))
    done = subprocess.run(check, env={**os.environ, "HERMES_HOME": str(tmp_path)}, capture_output=True)
    assert (done.returncode == 0) is healthy
