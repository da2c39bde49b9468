"""The modal backend, with a test double of the service: what it asks for, and what becomes of its containers."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from fakes.command import lab
from fakes.modal_container import STATUS
from fakes.modal_service import ModalDouble
from modal_fixture import leases, only
from modal_proto import api_pb2 as api

from hermes_lab.config.sandboxes import ModalConfig, SandboxConfig
from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.sandbox import missing_guarantees, open_sandbox, open_sandboxes, probe

RUN = ("-c", "model.provider=scripted", "-c", "model.name=hermes_lab.tasks.learner:noop", "-c", "sandbox.backend=modal")


async def test_a_container_runs_commands_over_its_own_workspace(modal: SandboxConfig) -> None:
    await probe(modal)
    async with open_sandbox(modal) as sandbox:
        assert sandbox.workspace_path == "/app/data"
        await sandbox.write("in/a.txt", b"hello")
        assert (await sandbox.exec("pwd; cat in/a.txt; cd in; export X=1")).output == "/app/data\nhello"
        assert (await sandbox.exec("pwd; echo $X; ls /root /home")).output.startswith("/app/data/in\n1\n")
        assert (await sandbox.exec("pwd", fresh=True)).output == "/app/data\n"
        assert (await sandbox.exec("sleep 30", timeout=0.3)).timed_out
        packed = await sandbox.pack(1_000_000)
    async with open_sandbox(modal) as other:
        assert (await other.exec("ls -A")).output == ""
        await other.unpack(packed)
        assert await other.read("in/a.txt") == b"hello"


async def test_much_more_than_one_message_goes_both_ways(modal: SandboxConfig) -> None:
    data = os.urandom(20_000_000)
    async with open_sandbox(modal) as sandbox:
        await sandbox.write("big", data)
        assert await sandbox.read("big", len(data)) == data


async def test_the_service_is_asked_for_no_network_a_lifetime_memory_and_tags(
    modal: SandboxConfig,
    modal_double: ModalDouble,
    tmp_path: Path,
) -> None:
    config = modal.model_copy(
        update={"memory_mb": 512, "modal": ModalConfig(app="mine", environment="main", max_seconds=600)}
    )
    async with open_sandbox(config):
        asked = only(modal_double)
        assert asked.second
        assert asked.definition.network_access.network_access_type == api.NetworkAccess.NetworkAccessType.BLOCKED
        assert asked.definition.timeout_secs == 600
        assert asked.definition.resources.memory_mb == 512
        assert 512 < asked.definition.resources.memory_mb_max <= 640
        assert not asked.definition.resources.gpu_config.gpu_type
        assert asked.app == modal_double.apps["main", "mine"]
        (lease,) = leases(tmp_path)
        assert asked.tags == {"made-by": "hermes-lab", "lease": lease.name}
        assert modal_double.images[asked.definition.image_id] == ("python:3.11-slim", True)
    assert asked.result is not None
    assert asked.result.status == STATUS.GENERIC_STATUS_TERMINATED
    assert leases(tmp_path) == []


async def test_a_gpu_is_asked_for_by_type_and_number(
    modal: SandboxConfig,
    modal_double: ModalDouble,
) -> None:
    async with open_sandbox(modal.model_copy(update={"gpu": "a100-80gb:2"})) as sandbox:
        asked = only(modal_double)
        assert not asked.second  # Modal has no GPUs in the other kind
        assert asked.definition.resources.gpu_config.gpu_type == "A100-80GB"
        assert asked.definition.resources.gpu_config.count == 2
        assert asked.definition.network_access.network_access_type == api.NetworkAccess.NetworkAccessType.BLOCKED
        assert asked.tags["made-by"] == "hermes-lab"
        assert (await sandbox.exec("echo yes")).output == "yes\n"
    assert modal_double.living() == []


async def test_volumes_are_those_of_the_service_and_read_only_ones_stay(
    modal: SandboxConfig,
    modal_double: ModalDouble,
) -> None:
    data, out = modal_double.make_volume("corpora"), modal_double.make_volume("results")
    (data / "a").write_text("x")
    config = modal.model_copy(update={"volumes": ("corpora:/mnt/in:ro", "results:/mnt/out")})
    async with open_sandbox(config) as sandbox:
        assert (await sandbox.exec("cat /mnt/in/a; echo y >/mnt/in/a")).exit_code != 0
        assert (await sandbox.exec("echo z >/mnt/out/b")).exit_code == 0
    assert (data / "a").read_text() == "x"
    assert (out / "b").read_text() == "z\n"


async def test_the_sandboxes_of_a_run_share_one_app_and_one_image(
    modal: SandboxConfig,
    modal_double: ModalDouble,
    tmp_path: Path,
) -> None:
    async def episode(number: int, opened: Callable[..., Any]) -> None:
        async with opened() as sandbox:
            assert (await sandbox.exec(f"echo {number}")).output == f"{number}\n"

    async with open_sandboxes(modal) as opened:
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(episode, number, opened)
        assert modal_double.living() == []
        assert len(leases(tmp_path)) == 1
    asked = [name for name, _ in modal_double.requests]
    assert asked.count("SandboxCreateV2") == asked.count("SandboxTerminateV2") == 8
    assert asked.count("AppGetOrCreate") == asked.count("ImageGetOrCreate") == 1
    assert leases(tmp_path) == []


def test_a_run_verifies_in_the_containers_and_says_what_is_not_kept(
    modal_double: ModalDouble,
    tmp_path: Path,
) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"prompt": "Say hello to me.", "verify": "test -d /app/data"}\n')
    done = lab("run", *RUN, "-c", f"suite.path={tasks}", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "100% solved" in done.stderr
    assert "sandbox.backend=modal: if the harness is killed, its containers run on at Modal" in done.stderr
    assert len(modal_double.containers) >= 2  # of the probe, and of the episode
    assert modal_double.living() == leases(tmp_path) == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"image": "docker://python:3.11"}, r"sandbox\.image: 'docker://python:3\.11': give an image of a registry"),
        ({"gpu": "all of them"}, r"sandbox\.gpu: 'all of them': with modal give a type such as T4"),
        ({"volumes": ("/data:/mnt/x",)}, r"sandbox\.volumes: .* /data must be the name of a volume at modal"),
        ({"volumes": ("corpora:/app/data",)}, r"/app/data is the sandbox's own"),
        ({"volumes": ("a:/mnt/x", "a:/mnt/y")}, r"sandbox\.volumes: a: Modal mounts a volume once in a sandbox"),
        ({"volumes": ("a:/tmp",)}, r"sandbox\.volumes: a: Modal mounts nothing at /tmp; give another target"),
        ({"require": ("no_orphans",)}, r"sandbox\.backend=modal does not keep no_orphans: if the harness is killed"),
    ],
)
def test_what_cannot_work_is_refused_at_once(
    modal: SandboxConfig,
    modal_double: ModalDouble,
    fields: dict[str, Any],
    why: str,
) -> None:
    with pytest.raises(ConfigError, match=why):
        open_sandbox(modal.model_copy(update=fields))
    assert modal_double.requests == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"image": "nosuch:1"}, r"^sandbox\.image: Image build for \S+ failed with the exception: nosuch:1: manifest"),
        ({"gpu": "T9"}, r"^sandbox\.gpu: Modal refuses it: T9 is not a valid GPU type$"),
        ({"gpu": "A10:5"}, r"^sandbox\.gpu: Modal refuses it: 5 GPUs are not possible$"),
        (
            {"volumes": ("nosuch:/mnt/x",)},
            r"^sandbox\.volumes: nosuch: Modal has no volume of this name; create it: modal volume create nosuch$",
        ),
        ({"modal": ModalConfig(environment="nosuch")}, r"^sandbox\.modal: Modal refuses it: Environment 'nosuch' not"),
        ({"modal": ModalConfig(app="no such")}, r"^sandbox\.modal: Modal refuses it: Invalid App name: 'no such'"),
    ],
)
async def test_what_the_service_refuses_is_one_clear_line(
    modal: SandboxConfig,
    modal_double: ModalDouble,
    fields: dict[str, Any],
    why: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        async with open_sandbox(modal.model_copy(update=fields)):
            pass
    assert "\n" not in str(caught.value)
    assert modal_double.living() == []
    assert leases(tmp_path) == []


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        ("", "modal needs a token: sign up at modal.com, then run `modal token new`, or set MODAL_TOKEN_ID and"),
        ("as-wrong", "Modal refuses the token: Token ID or secret is wrong; `modal token new` makes another"),
    ],
)
def test_a_run_without_an_account_does_not_start(
    modal_double: ModalDouble,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    secret: str,
    why: str,
) -> None:
    if not secret:
        monkeypatch.delenv("MODAL_TOKEN_ID")
    monkeypatch.setenv("MODAL_TOKEN_SECRET", secret)
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"prompt": "Say hello to me.", "verify": "true"}\n')
    command = [sys.executable, "-m", "hermes_lab", "run", *RUN, "-c", f"suite.path={tasks}", "--out", f"{tmp_path}/run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # the SDK keeps its client in a process
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"hermes-lab: error: sandbox.backend: {why}")
    assert done.stderr.count("error") == 1
    assert secret or not (tmp_path / "run").exists()


def test_a_missing_sdk_is_named(modal: SandboxConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "modal", None)
    with pytest.raises(ConfigError, match=r"modal needs its SDK: pip install 'hermes-lab\[modal\]'"):
        open_sandbox(modal)
    assert len(missing_guarantees(modal)) == 4


async def test_a_place_for_the_lease_that_cannot_be_written_is_named(
    modal: SandboxConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    with pytest.raises(ConfigError, match=r"/proc/nowhere/hermes-lab/leases/modal: .*; set XDG_STATE_HOME to a folder"):
        async with open_sandbox(modal):
            pass


async def test_the_double_refuses_whom_the_service_refuses(modal_double: ModalDouble) -> None:
    import modal as sdk

    with pytest.raises(sdk.exception.NotFoundError):
        await sdk.Sandbox.from_id.aio("sb-" + "a" * 22)
    with pytest.raises(sdk.exception.NotFoundError):
        await sdk.Sandbox.from_id.aio("sb-" + "a" * 26)
    app = await sdk.App.lookup.aio("hermes-lab", create_if_missing=True)
    image = await sdk.Image.from_registry("python:3.11-slim").build.aio(app)
    for asked in ({"timeout": 86401}, {"memory": 64}, {"tags": {"a b": "c"}}, {"region": "us-east"}):
        with pytest.raises(sdk.exception.InvalidError):
            await sdk.Sandbox.create.aio("sleep", "9", app=app, image=image, **asked)
    with pytest.raises(sdk.exception.UnimplementedError):
        await sdk.Dict.from_name("x").hydrate.aio()
    known = set(modal_double.tokens)
    modal_double.tokens.clear()
    with pytest.raises(sdk.exception.AuthError):
        await anext(sdk.Sandbox.list.aio(app_id=app.app_id))
    modal_double.tokens |= known  # the SDK keeps its own


async def test_a_full_account_is_an_error_of_the_service(
    modal: SandboxConfig,
    modal_double: ModalDouble,
) -> None:
    modal_double.most = 0
    with pytest.raises(SandboxError, match=r"^sandbox: modal: container limit reached$"):
        async with open_sandbox(modal):
            pass
