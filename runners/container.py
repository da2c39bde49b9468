"""The containers of the compose files: what the agent's variables mean, and what must hold before something starts.

    python -m hermes_lab.runners.container agent           the service: the gateway, with HTTP at port 8080
    python -m hermes_lab.runners.container cli [ARG ...]   a chat; `hermes-cli` in the container
    python -m hermes_lab.runners.container lab [ARG ...]   any command, for docker-compose.lab.yml: reads no variables

The variables are those of a lab that runs an agent in a container. Elsewhere nothing reads them.

    LLM_PROVIDER     openai (default: any OpenAI-compatible endpoint), responses or anthropic
    OPENAI_BASE_URL, ANTHROPIC_BASE_URL   the endpoint; default: that of the provider
    DEFAULT_MODEL    the model's name
    MEMORY_DB_URL    the database of memories, PostgreSQL with pgvector; empty: no memories
    POSTGRES_PASSWORD   the password that docker-compose.yml puts into MEMORY_DB_URL
    PERSISTENT_DIR   the folder in which `hermes-cli` works, one at a time; default /app/data
    HERMES_PLATFORMS the platforms of the gateway; default http
    HERMES_HTTP_KEY  the key of the HTTP platform; default: one made at the first start, in $HERMES_HOME/http-key
"""

import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from urllib.parse import quote

import anyio

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError, HermesLabError, SandboxError
from hermes_lab.gateway.restart import STATUS
from hermes_lab.processes import python_module
from hermes_lab.records import write_atomic
from hermes_lab.runners import output
from hermes_lab.sandbox import probe
from hermes_lab.sessions import hermes_home
from hermes_lab.skills.storage.store import SkillStore

PORT = 8080
_KEY = "HERMES_HTTP_KEY"
_KEY_FILE = "http-key"
_READ = (".yaml", ".md")
"""Files that people write."""
_ENDPOINTS = {
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "responses": ("OPENAI_BASE_URL", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
}


def settings(variables: Mapping[str, str]) -> Iterator[str]:
    """The `-c` options that the variables stand for. Raises `ConfigError` for one that is missing or unknown."""
    provider = variables.get("LLM_PROVIDER") or "openai"
    if provider not in _ENDPOINTS:
        raise ConfigError(f"LLM_PROVIDER: {provider!r} is unknown; set one of {', '.join(_ENDPOINTS)} in .env")
    if not (model := variables.get("DEFAULT_MODEL")):
        raise ConfigError("DEFAULT_MODEL: is not set; set the model's name in .env")
    variable, address, key = _ENDPOINTS[provider]
    if not (variables.get(variable) or variables.get(key)):
        raise ConfigError(
            f"{key}: is not set, and {address} needs it; set it in .env, or set {variable} to an endpoint "
            "that needs no key"
        )
    yield f"model.provider={provider}"
    yield f"model.name={model}"
    yield f"model.base_url={variables.get(variable) or address}"
    password = variables.get("POSTGRES_PASSWORD", "")
    if quote(password, safe="") != password:
        raise ConfigError(
            "POSTGRES_PASSWORD: has characters that cannot be part of MEMORY_DB_URL; use letters and digits, and "
            "change it in the database, too (docs/containers.md, Variables)"
        )
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
    raise ConfigError("give `agent`, `cli` or `lab`")


def check_user() -> None:
    """Raises `ConfigError` for root, whose files on the host nobody else could change."""
    if os.geteuid() == 0:
        raise ConfigError(
            "this is root: set HERMES_UID=$(id -u) and HERMES_GID=$(id -g) of an ordinary user, in .env or the "
            "environment"
        )


def prepare(home: Path, variables: Mapping[str, str]) -> None:
    """Checks the folders of the host, and that sandboxes isolate here. Raises `ConfigError` for a folder or file that
    cannot be used, `SandboxError` where there is no isolation: nothing runs without it."""
    workspace, skills = _workspace(variables), home / "skills"
    for folder in (home, skills, workspace):
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
            raise ConfigError(
                f"{folder}: user {os.geteuid()} cannot write there; on the host, make the folders (mkdir -p data "
                "skills) and set HERMES_UID=$(id -u) and HERMES_GID=$(id -g) in .env"
            )
    # Skills may be read only; what is recorded of them may not.
    for path in (*_entries(home, {workspace, skills}), *_entries(skills / ".hermes", {workspace})):
        if _is_closed(path):
            raise ConfigError(
                f"{path}: belongs to user {path.stat().st_uid}, and this is user {os.geteuid()}; if HERMES_UID has "
                "changed, give it all files, on the host: docker run --rm --user 0 --volumes-from hermes-agent-core "
                f"hermes-lab chown -R {os.geteuid()}:{os.getegid()} {home}"
            )
    try:
        anyio.run(probe, SandboxConfig())
    except HermesLabError as error:
        raise SandboxError(
            f"{error}; nothing runs without isolation: the container needs the security options of docker-compose.yml "
            "(docs/containers.md)"
        ) from None
    SkillStore(skills).link()


def _entries(folder: Path, left_out: Set[Path]) -> Iterator[Path]:
    """Everything below a folder, each folder before what is in it. What is in a closed one is left out."""
    try:
        found = sorted(folder.iterdir())
    except FileNotFoundError:
        return
    for path in found:
        if path not in left_out and not path.is_symlink():
            yield path
            if path.is_dir() and os.access(path, os.R_OK | os.X_OK, effective_ids=True):
                yield from _entries(path, left_out)


def _is_closed(path: Path) -> bool:
    """Whether a file or folder of another user cannot be used. What people write need only be readable."""
    try:
        if path.stat().st_uid == os.geteuid():
            return False
    except FileNotFoundError:  # removed meanwhile: the gateway runs while a chat starts
        return False
    asked = os.R_OK if path.suffix in _READ else os.R_OK | os.W_OK
    return not os.access(path, asked | (os.X_OK if path.is_dir() else 0), effective_ids=True)


def http_key(home: Path) -> str:
    """The key of the HTTP platform, which is made at the first start. An empty file, such as a full disk may have left,
    has none."""
    path = home / _KEY_FILE
    if path.exists() and (key := path.read_text().strip()):
        return key
    key = secrets.token_urlsafe(32)
    before = os.umask(0o077)
    try:
        write_atomic(path, key)
    finally:
        os.umask(before)
    return key


def main() -> None:
    """The entry point."""
    home = hermes_home()
    try:
        match sys.argv[1:]:
            case ["lab", *arguments]:
                check_user()
            case asked:
                arguments = command(asked, os.environ)
                check_user()
                prepare(home, os.environ)
                if asked == ["agent"]:
                    (home / STATUS).unlink(missing_ok=True)  # of a gateway before: the health check would believe it
                if not os.environ.get(_KEY):
                    os.environ[_KEY] = http_key(home)
    except HermesLabError as error:
        output.say(f"hermes-lab: error: {error}")
        sys.exit(2 if isinstance(error, ConfigError) else 3)
    except OSError as error:
        output.say(f"hermes-lab: error: {error.filename or home}: {error.strerror}")
        sys.exit(3)
    # As the command itself, so that a restart of the gateway gives it the same arguments.
    os.execv(sys.executable, python_module("hermes_lab", *arguments))


def _workspace(variables: Mapping[str, str]) -> Path:
    return Path(variables.get("PERSISTENT_DIR") or "/app/data")


if __name__ == "__main__":
    main()
