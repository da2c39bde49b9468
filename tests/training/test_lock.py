from pathlib import Path

import pytest

from hermes_lab.errors import ConfigError
from training.config import load_train_config
from training.lock import LockedConfig, load_lock, lock_digest, write_lock

SHIPPED = sorted(Path("configs/locks").glob("*.yaml"))
CPU = Path("configs/locks/sft-cpu.yaml")


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    write_lock(CPU, tmp_path / "lock.yaml")
    return tmp_path / "lock.yaml"


@pytest.fixture
def sources(tmp_path: Path, lock: Path) -> list[str]:
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    (tmp_path / "train.yaml").write_text(f"lock: {lock}\ndata: [{tmp_path}/run]\n")
    return [str(tmp_path / "train.yaml")]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_locks_hold(path: Path) -> None:
    load_lock(path)


def test_every_locked_field_changes_the_digest() -> None:
    locked = load_lock(CPU)
    changed = {
        bool: lambda value: not value,
        str: lambda value: value + "x",
        int: lambda value: value + 1,
        float: lambda value: value * 2,
    }
    for name, value in locked.model_dump().items():
        other = locked.model_copy(update={name: changed[type(value)](value)})
        assert lock_digest(other) != lock_digest(locked), name


@pytest.mark.parametrize("field", list(LockedConfig.model_fields))
def test_a_field_changed_by_hand_is_refused(lock: Path, field: str) -> None:
    changed = {"use_wandb": "true", "lora_target": "q_proj", "seed": "7"}
    lines = lock.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"{field}:"))
    lines[at] = f"{field}: {changed.get(field, '77')}"
    lock.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=r"lock.yaml: a locked field was changed by hand.*train lock SRC -o"):
        load_lock(lock)


def test_a_comment_may_be_changed(lock: Path) -> None:
    lock.write_text(lock.read_text() + "# decided on Monday\n")
    assert load_lock(lock) == load_lock(CPU)


def test_a_file_without_a_digest_is_no_lock(lock: Path) -> None:
    lock.write_text(lock.read_text().partition("digest:")[0])
    with pytest.raises(ConfigError, match="it has no digest"):
        load_lock(lock)


def test_a_missing_field_is_named(lock: Path) -> None:
    lock.write_text("".join(line for line in lock.read_text().splitlines(True) if not line.startswith("seed")))
    with pytest.raises(ConfigError, match="seed: must be given"):
        load_lock(lock)


def test_an_edited_lock_is_the_source_of_a_new_one(lock: Path, tmp_path: Path) -> None:
    edited = tmp_path / "edited.yaml"
    edited.write_text(lock.read_text().replace("total_steps: 120", "total_steps: 9"))
    digest = write_lock(edited, tmp_path / "new.yaml")
    made = load_lock(tmp_path / "new.yaml")
    assert (made.total_steps, lock_digest(made)) == (9, digest)


def test_a_lock_is_never_overwritten(lock: Path) -> None:
    before = lock.read_bytes()
    with pytest.raises(ConfigError, match="never overwritten"):
        write_lock(CPU, lock)
    assert lock.read_bytes() == before


@pytest.mark.parametrize("override", ["learning_rate=1", "lock.learning_rate=1"])
def test_an_override_of_a_locked_field_names_field_value_and_remedy(
    sources: list[str], lock: Path, override: str
) -> None:
    with pytest.raises(ConfigError) as error:
        load_train_config([*sources, override])
    assert str(error.value).startswith(f"{override}: learning_rate is locked at 0.0015 by {lock}; a person makes")


def test_a_locked_field_in_the_training_file_is_refused(sources: list[str], tmp_path: Path) -> None:
    more = tmp_path / "more.yaml"
    more.write_text("tokenizer: mine\n")
    with pytest.raises(ConfigError, match=r"more.yaml: tokenizer is locked at 'packaged'"):
        load_train_config([*sources, str(more)])


def test_the_environment_sets_nothing(sources: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LEARNING_RATE", "learning_rate", "LOCK", "name"):
        monkeypatch.setenv(name, "1")
    config = load_train_config(sources)
    assert (config.name, load_lock(Path(config.lock)).learning_rate) == ("sft", 0.0015)


def test_what_is_not_locked_may_be_chosen(sources: list[str]) -> None:
    config = load_train_config([*sources, "name=mine", "gate.splits=[train,extra]"])
    assert (config.name, config.gate.splits) == ("mine", ("train", "extra"))


def test_data_must_be_runs(sources: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"data: /nowhere is no run folder"):
        load_train_config([*sources, "data=[/nowhere]"])
