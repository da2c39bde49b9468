"""Numbers and switches of configurations and locks are strict: what only looks like one is refused in one line."""

import re
from pathlib import Path

import pytest

from hermes_lab.config.home_file import load_home_config
from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.errors import ConfigError
from hermes_lab.training.lock import load_lock, lock_digest, write_lock

LOCK = Path("configs/locks/grpo-cpu.yaml")
INTEGER, NUMBER, SWITCH = "must be an integer", "must be a number", "must be true or false"
LARGE = "must be at most 9223372036854775807 in size"


def edited(folder: Path, field: str, value: str) -> Path:
    text, found = re.subn(rf"^( *){field}: .*$", rf"\g<1>{field}: {value}", LOCK.read_text(), flags=re.M)
    assert found == 1
    (folder / "source.yaml").write_text(text)
    return folder / "source.yaml"


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        *(("batch_size", value, INTEGER) for value in ("true", "1.0", '"8"', "1e0", ".nan", ".inf", "-.inf", "1e400",
                                                       "8_0", "!!str 8", "!!float 8", "null", "[8]", "9" * 5000)),
        *(("learning_rate", value, NUMBER) for value in ("true", '"0.1"', "0_1.0", "null")),
        *(("learning_rate", value, "must be a finite number") for value in (".nan", ".inf", "1e400")),
        *(("use_wandb", value, SWITCH) for value in ("1", "0", "1.0", '"true"', "null")),
        *((field, "1" + "0" * 30, LARGE) for field in ("batch_size", "seed", "learning_rate")),
        ("total_steps", "1000000000000", "Input should be less than or equal to 10000000"),
        ("seed", "-1", "Input should be greater than or equal to 0"),
        ("seed", "4294967296", "Input should be less than 4294967296"),
        ("group_size", '"8"', INTEGER),
        ("temperature", "true", NUMBER),
    ],
)  # fmt: skip
def test_a_lock_is_not_made_of_what_is_no_number(tmp_path: Path, field: str, value: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        write_lock(edited(tmp_path, field, value), tmp_path / "lock.yaml")
    assert re.fullmatch(rf"\S+source.yaml:\d+: (grpo\.)?{field}: {problem}", str(error.value).partition(" (also")[0])
    assert not (tmp_path / "lock.yaml").exists()


@pytest.mark.parametrize("value", ["0.0001", "1e-4", "1.0E-4", "0.1e-3", ".0001", "+0.0001", "!!float 0.0001"])
def test_a_number_is_the_same_in_any_format(tmp_path: Path, value: str) -> None:
    digest = write_lock(edited(tmp_path, "learning_rate", value), tmp_path / "lock.yaml")
    assert digest == lock_digest(load_lock(LOCK))


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("run.concurrency=true", INTEGER),
        ("run.concurrency=2.0", INTEGER),
        ("run.concurrency='2'", INTEGER),
        ("model.timeout=true", NUMBER),
        ("model.timeout='60'", NUMBER),
        ("model.token_ids=1", SWITCH),
        ("model.token_ids='true'", SWITCH),
        ("model.server.port=99999999999999999999", LARGE),
    ],
)
def test_a_configuration_is_as_strict(override: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config([override])
    assert str(error.value) == f"override {override}: {override.partition('=')[0]}: {problem}"


def test_what_is_a_number_is_read() -> None:
    config = load_config(["run.concurrency=0x8", "model.timeout=60", "model.sampling.temperature=1e-1"])
    assert (config.run.concurrency, config.model.timeout, config.model.sampling.temperature) == (8, 60.0, 0.1)
    assert RunConfig.model_validate(config.model_dump(mode="json")) == config


def test_a_number_of_the_environment_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_PORT", "2222")
    (tmp_path / "config.yaml").write_text(
        "sandbox: {backend: ssh, ssh: {host: '${A_PORT}', port: '${A_PORT}'}}\n"
        "model: {extra_body: {user: '${A_PORT}'}}\n"
    )
    config = load_home_config(tmp_path, [])
    assert (config.sandbox.ssh.host, config.sandbox.ssh.port) == ("2222", 2222)
    assert config.model.extra_body == {"user": "2222"}
    monkeypatch.setenv("A_PORT", "22.0")
    with pytest.raises(ConfigError, match=r"sandbox.ssh.port: must be an integer"):
        load_home_config(tmp_path, [])
