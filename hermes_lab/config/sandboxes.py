"""The configuration of sandboxes: the backend, its limits, and where it runs."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from hermes_lab.config.paths import InputPath, OutputPath
from hermes_lab.config.section import Section
from hermes_lab.config.units import Unit

BackendName = Literal["bubblewrap", "docker", "local", "ssh", "apptainer", "modal", "daytona"]
Promise = Literal["isolation", "no_network", "verifier", "memory", "processes", "file_size", "disk", "no_orphans"]
"""The guarantees that a backend can give: see docs/backends.md."""
IMAGE = "HERMES_LAB_IMAGE"
"""Set in the images that the Dockerfile builds, which refuse sandboxes without isolation."""


class SshConfig(Section):
    """A machine reached by ssh, on which the sandboxes run."""

    host: str = ""
    """The machine. Its host key must be known."""
    user: str = ""
    """The user there; empty: the name of your user here."""
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    """The port of its ssh server."""
    key_file: InputPath = ""
    """Your private key; empty: the ssh agent, then the default keys in ~/.ssh."""
    known_hosts: InputPath = ""
    """The file of known host keys; empty: ~/.ssh/known_hosts."""
    isolation: Literal["bubblewrap", "none"] = "bubblewrap"
    """How commands are isolated there. `none`: they run as that user, with the files and network of that machine."""
    python: str = "python3"
    """Python 3.11 or newer on that machine, which runs the remote side. Nothing is installed there."""


class ModalConfig(Section):
    """Sandboxes at Modal (modal.com)."""

    app: str = "hermes-lab"
    """The app that the sandboxes belong to there. It is created if it does not exist."""
    environment: str = ""
    """The environment there; empty: that of your Modal profile."""
    max_seconds: Annotated[int, Field(ge=10, le=86400), Unit("seconds")] = 3600
    """Maximum lifetime of a sandbox. Modal then ends it with everything that runs in it."""


class DaytonaConfig(Section):
    """The account at Daytona in which the sandboxes run."""

    api_url: str = "https://app.daytona.io/api"
    """The address of its API."""
    api_key_env: str = "DAYTONA_API_KEY"
    """The environment variable with the key."""
    target: str = ""
    """The region; empty: the default of the account."""
    snapshot: str = ""
    """The snapshot that sandboxes are made of, with its own CPUs, memory, disk and GPU, in place of `sandbox.image`."""
    max_seconds: Annotated[int, Field(ge=60), Unit("seconds")] = 3600
    """Maximum lifetime of a sandbox, rounded up to minutes. Daytona then deletes it with everything that runs in it."""


class SandboxConfig(Section):
    """The isolation and limits of an episode."""

    backend: BackendName = "bubblewrap"
    """Where commands run, and how they are isolated (docs/backends.md). `local` does not isolate, and requires
    `allow_local`."""
    require: tuple[Promise, ...] = ()
    """Guarantees that the backend must give, or the run does not start. Missing ones that are not listed cause a
    warning."""
    allow_local: bool = False
    """Allow `backend: local` to run the agent's commands as your user, with access to your files and network."""
    image: str = "python:3.11-slim"
    """docker: a local image with bash and setpriv, never pulled. apptainer: a .sif file or a folder with a root file
    system, with Python 3.11 or newer in it. modal and daytona: an image of a public registry, with Python 3.11 or newer
    in it."""
    volumes: tuple[str, ...] = ()
    """Folders of this machine to mount in every sandbox: SOURCE:TARGET, or SOURCE:TARGET:ro for one that commands
    cannot change. modal and daytona: SOURCE is the name of a volume there; daytona has none with :ro."""
    gpu: str = ""
    """GPUs for commands; empty: none. docker: `all`, a number, or device ids such as 0,1. apptainer: `nvidia` or
    `rocm`. modal: a type such as T4, or a type and a number such as A100:2. daytona: a type such as H100, several in
    order of preference, or `any`."""
    timeout: Annotated[float, Field(gt=0), Unit("seconds")] = 180.0
    """Default timeout of a command, in seconds."""
    memory_mb: Annotated[int, Field(ge=16), Unit("MB")] = 1024
    """Maximum address space per process, and maximum resident memory of all processes of an episode together."""
    processes: Annotated[int, Field(gt=0)] = 128
    """Maximum number of simultaneous processes."""
    file_mb: Annotated[int, Field(gt=0), Unit("MB")] = 256
    """Maximum size of a file written by a command."""
    disk_mb: Annotated[int, Field(gt=0), Unit("MB")] = 1024
    """Maximum size of the whole workspace."""
    workspace: OutputPath = ""
    """Chats only: the working folder, on this machine, which is kept; empty: a new folder, deleted at the end."""
    output_chars: Annotated[int, Field(gt=0), Unit("characters")] = 50_000
    """Maximum characters of a command's output shown to the model; longer output is cut in the middle."""
    ssh: SshConfig = SshConfig()
    """The machine of `backend: ssh`."""
    modal: ModalConfig = ModalConfig()
    """The account of `backend: modal`."""
    daytona: DaytonaConfig = DaytonaConfig()
    """The account of `backend: daytona`."""

    @field_validator("backend", mode="before")
    @classmethod
    def _former_name(cls, backend: Any) -> Any:
        """Singularity became Apptainer."""
        return "apptainer" if backend == "singularity" else backend

    @property
    def isolates(self) -> bool:
        """Whether commands are kept from the files, processes and network of the machine that they run on."""
        return self.backend != "local" and not (self.backend == "ssh" and self.ssh.isolation == "none")
