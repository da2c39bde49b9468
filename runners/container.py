"""The agent in the container of docker-compose.yml: what its variables mean, and what must hold before it starts.

    python -m hermes_lab.runners.container agent           the service: the gateway, with HTTP at port 8080
    python -m hermes_lab.runners.container cli [ARG ...]   a chat; `hermes-cli` in the container

The variables are those of a lab that runs an agent in a container. Elsewhere nothing reads them.

    LLM_PROVIDER     openai (default: any OpenAI-compatible endpoint), responses or anthropic
    OPENAI_BASE_URL, ANTHROPIC_BASE_URL   the endpoint; default: that of the provider
    DEFAULT_MODEL    the model's name
    MEMORY_DB_URL    the database of memories, PostgreSQL with pgvector; empty: no memories
    PERSISTENT_DIR   the folder in which `hermes-cli` works, one at a time; default /app/data
    HERMES_PLATFORMS the platforms of the gateway; default http
    HERMES_HTTP_KEY  the key of the HTTP platform; default: one made at the first start, in $HERMES_HOME/http-key
"""

import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import anyio

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError, HermesLabError, SandboxError
from hermes_lab.runners import cli, output
from hermes_lab.sandbox import probe
from hermes_lab.sessions import hermes_home
from hermes_lab.skills.storage.store import SkillStore

PORT = 8080
_KEY = "HERMES_HTTP_KEY"
_KEY_FILE = "http-key"
_ENDPOINTS = {
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "responses": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com/v1"),
}


def settings(variables: Mapping[str, str]) -> Iterator[str]:
    """The `-c` options that the variables stand for. Raises `ConfigError` for one that is missing or unknown."""
    provider = variables.get("LLM_PROVIDER") or "openai"
    if provider not in _ENDPOINTS:
        raise ConfigError(f"LLM_PROVIDER: {provider!r} is unknown; set one of {', '.join(_ENDPOINTS)} in .env")
    if not (model := variables.get("DEFAULT_MODEL")):
        raise ConfigError("DEFAULT_MODEL: is not set; set the model's name in .env")
    variable, address = _ENDPOINTS[provider]
    yield f"model.provider={provider}"
    yield f"model.name={model}"
    yield f"model.base_url={variables.get(variable) or address}"
    if variables.get("MEMORY_DB_URL"):
        yield "memory.vectors=postgres"
        yield "memory.url_env=MEMORY_DB_URL"


def command(asked: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """The arguments of `hermes-lab` for what the container is asked to do. Raises `ConfigError`."""
    options = [part for setting in settings(variables) for part in ("-c", setting)]
    match list(asked):
        case ["agent"]:
            platforms = variables.get("HERMES_PLATFORMS") or "http"
            served = (f"gateway.platforms=[{platforms}]", "gateway.http.host=0.0.0.0", f"gateway.http.port={PORT}")
            return ["gateway", "run", *options, *(part for each in served for part in ("-c", each))]
        case ["cli", *rest]:
            own = (f"sandbox.workspace={_workspace(variables)}", "display.prompt='hermes> '")
            return ["chat", *options, *(part for each in own for part in ("-c", each)), *rest]
    raise ConfigError("give `agent` or `cli`")


def prepare(home: Path, variables: Mapping[str, str]) -> None:
    """Checks the folders of the host, and that sandboxes isolate here. Raises `ConfigError` for a folder that cannot be
    written, `SandboxError` where there is no isolation: nothing runs without it."""
    for folder in (home, home / "skills", _workspace(variables)):
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(
                f"{folder}: user {os.getuid()} cannot write there; on the host, make the folders (mkdir -p data "
                "skills) and set HERMES_UID=$(id -u) and HERMES_GID=$(id -g) in .env"
            )
    try:
        anyio.run(probe, SandboxConfig())
    except HermesLabError as error:
        raise SandboxError(
            f"{error}; nothing runs without isolation: the container needs the security options of docker-compose.yml "
            "(docs/containers.md)"
        ) from None
    SkillStore(home / "skills").link()


def http_key(home: Path) -> str:
    """The key of the HTTP platform, which is made at the first start."""
    path = home / _KEY_FILE
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(32))
    return path.read_text().strip()


def main() -> None:
    """The entry point."""
    home = hermes_home()
    try:
        arguments = command(sys.argv[1:], os.environ)
        prepare(home, os.environ)
    except HermesLabError as error:
        output.say(f"hermes-lab: error: {error}")
        sys.exit(2 if isinstance(error, ConfigError) else 3)
    if not os.environ.get(_KEY):
        os.environ[_KEY] = http_key(home)
    # As the command itself, so that a restart of the gateway gives it the same arguments.
    os.execv(sys.executable, [sys.executable, "-m", cli.__name__.partition(".")[0], *arguments])


def _workspace(variables: Mapping[str, str]) -> Path:
    return Path(variables.get("PERSISTENT_DIR") or "/app/data")


if __name__ == "__main__":
    main()
