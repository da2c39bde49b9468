import re
from pathlib import Path

import pytest

from hermes_lab.errors import ConfigError
from hermes_lab.models.cards import values_digest
from hermes_lab.runners.cli import app
from hermes_lab.training.config import load_train_config
from hermes_lab.training.lock import (
    CurriculumLock,
    GrpoLock,
    HardwareLock,
    LockedConfig,
    load_lock,
    lock_digest,
    lock_text,
    locked_value,
    save_lock,
    write_lock,
)

SHIPPED = sorted(Path("configs/locks").glob("*.yaml"))
LOCK = Path("tests/fakes/locks/sft.yaml")


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    write_lock(LOCK, tmp_path / "lock.yaml")
    return tmp_path / "lock.yaml"


@pytest.fixture
def sources(tmp_path: Path, lock: Path) -> list[str]:
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    (tmp_path / "train.yaml").write_text(f"lock: {lock}\ndata: [{tmp_path}/run]\n")
    return [str(tmp_path / "train.yaml")]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_locks_hold_and_read_as_the_command_writes_them(path: Path) -> None:
    assert path.read_text() == lock_text(load_lock(path))


def test_a_lock_begins_with_how_to_change_it(lock: Path) -> None:
    told = lock.read_text().splitlines()[1]
    command = "hermes-lab train lock COPY -o LOCK"
    assert told == f"# To change a value, edit a copy and run `{command}`."
    copy, new = lock.with_name("copy.yaml"), lock.with_name("new.yaml")
    copy.write_text(lock.read_text().replace("learning_rate: 0.0015", "learning_rate: 0.002"))
    app(command.replace("COPY", str(copy)).replace("LOCK", str(new)).split()[1:], standalone_mode=False)
    assert load_lock(new).learning_rate == 0.002


SECTIONS = """
grpo:
  group_size: 4
  groups_per_round: 3
  steps_per_round: 5
  temperature: 1.0
  max_reply_tokens: 64
  clip_epsilon: 0.2
  max_batches_offpolicy: 0
  max_num_workers: 8
  worker_timeout: 60.0
  steps_per_eval: 0
  eval_limit_ratio: 0.5
  inference_weight: 1.0
preference:
  beta: 0.1
curriculum:
  min_success: 0.2
  max_success: 0.8
  memory_rounds: 4
hardware:
  gpu_memory: 24
  precision: bfloat16
  quantization: none
  gradient_checkpointing: false
  packing: true
  micro_tokens: 4096
"""
FIELDS = [
    *(name for name, field in LockedConfig.model_fields.items() if field.is_required()),
    *(f"grpo.{name}" for name in GrpoLock.model_fields),
    *(f"hardware.{name}" for name in HardwareLock.model_fields),
    "preference.beta",
    *(f"curriculum.{name}" for name in CurriculumLock.model_fields),
]


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A lock with both sections."""
    source = tmp_path / "source.yaml"
    source.write_text(LOCK.read_text() + SECTIONS)
    write_lock(source, tmp_path / "full.yaml")
    return tmp_path / "full.yaml"


@pytest.mark.parametrize("field", FIELDS)
def test_every_locked_field_changes_the_digest(full: Path, field: str) -> None:
    changed = {
        bool: lambda value: not value,
        str: lambda value: value + "x",
        int: lambda value: value + 1,
        float: lambda value: value * 2,
    }
    locked = load_lock(full)
    content = locked.content()
    section, _, name = field.rpartition(".")
    within = content[section] if section else content
    within[name] = changed[type(within[name])](within[name])
    assert values_digest(content) != lock_digest(locked)


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_changed_by_hand_is_refused(full: Path, field: str) -> None:
    changed = {
        "use_wandb": "true",
        "lora_target": "q_proj",
        "seed": "7",
        "steps_per_round": "1",
        "eval_limit_ratio": "1",
        "min_success": "0.1",
        "max_success": "0.9",
        "precision": "float32",
        "quantization": "nf4",
        "gradient_checkpointing": "true",
        "packing": "false",
    }
    name = field.rpartition(".")[2]
    text, found = re.subn(rf"^( *){name}: .*$", rf"\1{name}: {changed.get(name, '75')}", full.read_text(), flags=re.M)
    assert found == 1
    full.write_text(text)
    with pytest.raises(ConfigError, match=r"full.yaml: a locked field was changed by hand.*train lock SRC -o"):
        load_lock(full)


def test_an_absent_section_is_no_part_of_the_digest(full: Path) -> None:
    assert lock_digest(load_lock(LOCK)) == "005c60e21814141e335aac35ad927afebe45d6255ec2cda1a0845e8243937c01"
    absent = dict.fromkeys(("grpo", "preference", "curriculum", "hardware"))
    assert load_lock(full).model_copy(update=absent) == load_lock(LOCK)
    assert lock_digest(load_lock(full)) != lock_digest(load_lock(LOCK))


@pytest.mark.parametrize("highest", ["0.1", "0.2"])
def test_a_window_without_width_is_refused(tmp_path: Path, highest: str) -> None:
    source = tmp_path / "source.yaml"
    source.write_text(LOCK.read_text() + SECTIONS.replace("max_success: 0.8", f"max_success: {highest}"))
    with pytest.raises(ConfigError, match=r"curriculum.max_success: .*must be above min_success, which is 0\.2"):
        write_lock(source, tmp_path / "lock.yaml")


def test_a_lock_with_sections_says_what_each_field_means(full: Path) -> None:
    text, own = full.read_text(), load_lock(full).content()
    given = [field for name, field in LockedConfig.model_fields.items() if name in own]
    for field in (*GrpoLock.model_fields.values(), *given):
        assert f"# {field.description}" in text


def test_steps_that_make_no_whole_rounds_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "source.yaml"
    source.write_text(LOCK.read_text() + SECTIONS.replace("steps_per_round: 5", "steps_per_round: 7"))
    with pytest.raises(ConfigError, match="grpo: total_steps is 150, not a multiple of steps_per_round 7"):
        write_lock(source, tmp_path / "lock.yaml")


def test_a_lock_without_the_section_names_it(full: Path) -> None:
    assert locked_value(load_lock(full), "grpo.temperature") == 1.0
    with pytest.raises(
        ConfigError, match=r"lock: it has no section grpo, which holds grpo.temperature; make a new lock"
    ):
        locked_value(load_lock(LOCK), "grpo.temperature")


def test_a_comment_may_be_changed(lock: Path) -> None:
    lock.write_text(lock.read_text() + "# decided on Monday\n")
    assert load_lock(lock) == load_lock(LOCK)


def test_a_file_without_a_digest_is_no_lock(lock: Path) -> None:
    lock.write_text(lock.read_text().partition("digest:")[0])
    with pytest.raises(ConfigError, match="it has no digest"):
        load_lock(lock)


def test_all_wrong_fields_are_named() -> None:
    with pytest.raises(ConfigError, match=r"lock: is required \(also invalid: data, lerning_rate\)"):
        load_train_config(["lerning_rate=1"])


def test_a_missing_field_is_named(lock: Path) -> None:
    lock.write_text("".join(line for line in lock.read_text().splitlines(True) if not line.startswith("seed")))
    with pytest.raises(ConfigError, match="seed: is required"):
        load_lock(lock)


def test_an_edited_lock_is_the_source_of_a_new_one(lock: Path, tmp_path: Path) -> None:
    edited = tmp_path / "edited.yaml"
    edited.write_text(lock.read_text().replace("total_steps: 150", "total_steps: 9"))
    digest = write_lock(edited, tmp_path / "new.yaml")
    made = load_lock(tmp_path / "new.yaml")
    assert (made.total_steps, lock_digest(made)) == (9, digest)


def test_a_lock_is_never_overwritten(lock: Path) -> None:
    before = lock.read_bytes()
    with pytest.raises(ConfigError, match="never overwritten"):
        write_lock(LOCK, lock)
    assert lock.read_bytes() == before


@pytest.mark.parametrize("override", ["learning_rate=1", "lock.learning_rate=1"])
def test_an_override_of_a_locked_field_names_field_value_and_remedy(
    sources: list[str], lock: Path, override: str
) -> None:
    with pytest.raises(ConfigError) as error:
        load_train_config([*sources, override])
    assert str(error.value).startswith(f"{override}: learning_rate is locked at 0.0015 by {lock}; make a new lock with")


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


@pytest.mark.parametrize("target", [".*(q_proj|lm_head)", ".*(q_proj|embed_tokens)"])
def test_a_lock_that_adapts_a_head_which_is_also_the_embedding_is_not_made(tmp_path: Path, target: str) -> None:
    locked = load_lock(Path("configs/locks/sft-qwen3-4b-24gb.yaml")).model_copy(update={"lora_target": target})
    with pytest.raises(ConfigError, match=r"lora_target: .* adapts (lm_head|model.embed_tokens), .* change both"):
        save_lock(locked, tmp_path / "lock.yaml")
    assert not (tmp_path / "lock.yaml").exists()
    save_lock(locked.model_copy(update={"base_model": "Qwen/Qwen3-8B"}), tmp_path / "untied.yaml")
    save_lock(locked.model_copy(update={"base_model": "unknown/model"}), tmp_path / "unknown.yaml")
    save_lock(locked.model_copy(update={"lora_target": r".*\.q_proj"}), tmp_path / "other.yaml")
