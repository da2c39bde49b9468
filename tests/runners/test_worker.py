"""What a worker says where it cannot begin."""

import anyio
import pytest

from hermes_lab.config.schema import RunConfig, SuiteConfig
from hermes_lab.errors import SandboxError
from hermes_lab.runners.engine.keys import secret_variables
from hermes_lab.runners.engine.worker import Setup, Worker
from hermes_lab.tasks.registry import load_suite

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SandboxError("no bubblewrap"), "no bubblewrap"),
        (ImportError("libgone.so"), "ImportError: libgone.so"),
    ],
)
async def test_whatever_is_in_the_way_of_a_worker_is_told_and_nobody_waits_for_it(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: object) -> None:
        raise error

    monkeypatch.setattr("hermes_lab.runners.engine.worker.probe", fail)
    worker = Worker(Setup(RunConfig(), "", load_suite(SuiteConfig(name="ledger")), (), {}))
    with anyio.fail_after(60):
        await worker.serve()
        assert said in await worker.ready()
        await worker.close()


def test_workers_get_every_key_that_the_run_reads() -> None:
    assert secret_variables(RunConfig()) == ("OPENAI_API_KEY", "DAYTONA_API_KEY")
    config = RunConfig.model_validate(
        {
            "model": {"api_key_env": "KEY_A, KEY_B", "headers": {"X-Org": "org ${ORG}"}},
            "auxiliary": {"provider": "anthropic", "name": "small"},
            "judge": {"model": {"name": "judge", "api_key_env": "JUDGE", "headers": {"X-Team": "${TEAM}"}}},
            "web": {"provider": "brave"},
            "sandbox": {"daytona": {"api_key_env": "BOXES"}},
            "mcp": {"servers": {"desk": {"url": "https://desk.example", "headers": {"Authorization": "${DESK}"}}}},
        }
    )
    expected = {"KEY_A", "KEY_B", "ORG", "ANTHROPIC_API_KEY", "JUDGE", "TEAM", "BRAVE_API_KEY", "BOXES", "DESK"}
    assert set(secret_variables(config)) == expected
    assert "SEARCH" in secret_variables(RunConfig.model_validate({"web": {"api_key_env": "SEARCH", "provider": "exa"}}))
    assert "" not in secret_variables(RunConfig.model_validate({"model": {"api_key_env": ""}}))
