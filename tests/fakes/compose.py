"""`docker compose` as far as this project's files need it, by the `docker` command line. Not the real one, which a
machine without a registry may not have: it refuses every key that it does not know.
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<how>[-?])(?P<rest>[^}]*))?\}")
_KNOWN = {
    "build",
    "image",
    "container_name",
    "restart",
    "init",
    "user",
    "depends_on",
    "environment",
    "ports",
    "volumes",
}
_KNOWN |= {"healthcheck", "networks", "extra_hosts", "cap_drop", "security_opt"}
_HEALTH = {"interval": "--health-interval", "timeout": "--health-timeout", "retries": "--health-retries"}


class Missing(Exception):
    """A variable that the file asks for is not set."""


class Compose:
    """The services of a compose file, with the variables of a `.env` file."""

    def __init__(self, file: Path, variables: Mapping[str, str], project: str) -> None:
        self.folder = file.parent
        self._project = project
        self._content: dict[str, Any] = yaml.safe_load(_interpolated(file.read_text(), variables))

    def up(self, *services: str) -> None:
        """Creates what is missing and starts the services, one after another: each once it is healthy that the next
        depends on. Those that run already are made anew, as after a change of the image."""
        for network in self._content["networks"]:
            if docker("network", "ls", "-q", "--filter", f"name=^{self._named(network)}$") == "":
                docker("network", "create", self._named(network))
        for name in services or self._content["services"]:
            service = self._content["services"][name]
            for other, what in service.get("depends_on", {}).items():
                assert what == {"condition": "service_healthy"}
                self.healthy(other)
            docker("rm", "--force", service["container_name"])
            docker(*self._run(name, service))

    def healthy(self, name: str, seconds: float = 300) -> None:
        """Waits until the health check of a service passes."""
        container = self._content["services"][name]["container_name"]
        deadline = time.monotonic() + seconds
        while (state := self.state(container))["Health"]["Status"] != "healthy":
            assert time.monotonic() < deadline, f"{state}\n{docker('logs', container)}"
            time.sleep(0.5)

    def state(self, container: str) -> dict[str, Any]:
        """What the engine says of a container."""
        state: dict[str, Any] = json.loads(docker("inspect", "--format", "{{json .State}}", container))
        return state

    def down(self, *, volumes: bool = False) -> None:
        """Removes the containers and networks, and with `volumes` also the data."""
        for service in self._content["services"].values():
            docker("rm", "--force", service["container_name"])
        for network in self._content["networks"]:
            docker("network", "rm", self._named(network))
        for volume in self._content["volumes"] if volumes else ():
            docker("volume", "rm", self._named(volume))

    def network(self) -> str:
        """The address of this machine in the first network."""
        named = self._named(next(iter(self._content["networks"])))
        return docker("network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", named)

    def _named(self, name: str) -> str:
        return f"{self._project}_{name}"

    def _run(self, name: str, service: Mapping[str, Any]) -> list[str]:
        assert service.keys() <= _KNOWN, service.keys() - _KNOWN
        words = ["run", "--detach", "--name", service["container_name"], "--restart", service["restart"]]
        words += ["--init"] if service.get("init") else []
        words += ["--user", service["user"]] if "user" in service else []
        for key, value in service["environment"].items():
            words += ["--env", f"{key}={'' if value is None else value}"]
        for port in service["ports"]:
            words += ["--publish", port]
        for volume in service["volumes"]:
            source, target = volume.split(":", 1)
            where = str((self.folder / source).resolve()) if source.startswith(".") else self._named(source)
            words += ["--volume", f"{where}:{target}"]
        for network in service["networks"]:
            words += ["--network", self._named(network), "--network-alias", name]
        for host in service.get("extra_hosts", ()):
            words += ["--add-host", host]
        for capability in service.get("cap_drop", ()):
            words += ["--cap-drop", capability]
        for option in service.get("security_opt", ()):
            words += ["--security-opt", self._security(option)]
        check = service["healthcheck"]
        kind, *test = check["test"]
        words += ["--health-cmd", test[0] if kind == "CMD-SHELL" else " ".join(map(_quoted, test))]
        for key, flag in _HEALTH.items():
            words += [flag, str(check[key])]
        return [*words, service["image"]]

    def _security(self, option: str) -> str:
        kind, separator, value = option.replace(":", "=", 1).partition("=")
        return f"{kind}={self.folder / value}" if kind == "seccomp" else f"{kind}{separator}{value}"


def docker(*args: str, ok: bool = True) -> str:
    """Runs `docker`; returns its output."""
    done = subprocess.run(["docker", *args], capture_output=True, text=True, env=dict(os.environ))
    if ok and args[0] not in ("rm",) and done.returncode != 0:
        raise AssertionError(f"docker {' '.join(args)}: {done.stdout}{done.stderr}")
    return (done.stdout if ok else done.stdout + done.stderr).strip()


def _interpolated(text: str, variables: Mapping[str, str]) -> str:
    """Replaces `${NAME}`, `${NAME:-default}` and `${NAME:?message}`; comments are left out."""

    def value(found: re.Match[str]) -> str:
        given = variables.get(found["name"], "")
        if not given and found["how"] == "?":
            raise Missing(f"{found['name']}: {found['rest']}")
        return given or (found["rest"] or "" if found["how"] == "-" else "")

    return _VARIABLE.sub(value, re.sub(r"(?m)^\s*#.*$", "", text))


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
