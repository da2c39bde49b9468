"""`sandbox.volumes` and `sandbox.gpu`."""

from pathlib import Path

import pytest
from docker_fixture import needed_config

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError, SandboxError
from hermes_lab.sandbox import open_sandbox
from hermes_lab.sandbox.volumes import volumes_of


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("/tmp", "give SOURCE:TARGET or SOURCE:TARGET:ro"),
        ("/tmp:", "give SOURCE:TARGET or SOURCE:TARGET:ro"),
        ("/tmp:/a:b:c", "give SOURCE:TARGET or SOURCE:TARGET:ro"),
        ("/tmp:/a:rx", "'rx' is not a mode"),
        ("/tmp:a", "a must be an absolute path in the sandbox"),
        ("/tmp:/a/../..", "must be an absolute path in the sandbox"),
        ("tmp:/a", "tmp must be an absolute path of this machine"),
        ("/no/such:/a", "/no/such: no such file or folder"),
        ("/tmp:/", "/ is the sandbox's own"),
        ("/tmp:/app", "/app is the sandbox's own"),
        ("/tmp:/app/data/x", "/app/data/x is the sandbox's own"),
        ("/tmp:/proc", "/proc is the sandbox's own"),
        ("/tmp:/run/hermes-lab/exchange", "is the sandbox's own"),
    ],
)
def test_a_malformed_volume_is_one_clear_line(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match="sandbox.volumes: ") as caught:  # noqa: RUF043
        volumes_of(SandboxConfig(backend="docker", volumes=(text,)))
    assert why in str(caught.value)


async def test_docker_mounts_them(tmp_path: Path) -> None:
    config = needed_config()
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "a").write_text("x")
    for folder in (tmp_path, inside):
        folder.chmod(0o777)
    volumes = (f"{tmp_path}/in:/mnt/in:ro", f"{tmp_path}:/mnt/out")
    async with open_sandbox(config.model_copy(update={"volumes": volumes})) as sandbox:
        assert (await sandbox.exec("cat /mnt/in/a")).output == "x"
        assert (await sandbox.exec("echo y >/mnt/in/a")).exit_code != 0
        assert (await sandbox.exec("echo z >/mnt/out/b")).exit_code == 0
    assert (tmp_path / "in" / "a").read_text() == "x"
    assert (tmp_path / "b").read_text() == "z\n"


@pytest.mark.parametrize("gpu", ["all", "1", "0,1"])
async def test_a_gpu_is_asked_of_the_engine_which_says_that_it_has_none(gpu: str) -> None:
    """An engine without NVIDIA's runtime refuses the request for what it is."""
    with pytest.raises(SandboxError, match="could not select device driver"):
        async with open_sandbox(needed_config().model_copy(update={"gpu": gpu})):
            pass
