"""One sandbox at Modal itself, with your account: `pytest tests/real/test_modal_account.py`. It costs cents."""

import os

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError
from hermes_lab.sandbox import open_sandbox, probe
from hermes_lab.sandbox.modal import check_account

pytestmark = pytest.mark.long


async def test_a_container_at_modal_isolates_and_keeps_its_files() -> None:
    try:
        check_account()
    except ConfigError as error:
        pytest.skip(f"optional: {error}")
    config, data = SandboxConfig(backend="modal"), os.urandom(3_000_000)
    await probe(config)
    async with open_sandbox(config) as sandbox:
        assert (await sandbox.exec("export X=1; pwd")).output == "/app/data\n"
        await sandbox.write("data", data)
        assert await sandbox.read("data", len(data)) == data
        connect = "python3 -c 'import socket; socket.create_connection((\"1.1.1.1\", 443), 5)' 2>/dev/null"
        assert (await sandbox.exec(f"echo $X; {connect} || echo none")).output == "1\nnone\n"
        assert (await sandbox.exec("sleep 30", timeout=1)).timed_out
