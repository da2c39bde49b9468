"""What a lock holds of the runs, weights, tokenizer and parent that a training is made from."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes.adapters import card_of, make_adapter, write_adapter, write_base
from fakes.training import smoke_lock

from hermes_lab.errors import ConfigError
from hermes_lab.models import weights
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.cards import check_card, read_card
from hermes_lab.training import job
from hermes_lab.training.adapters import new_version, write_card
from hermes_lab.training.config import TrainConfig
from hermes_lab.training.grpo_config import GrpoConfig, heldout_batch, training_batch
from hermes_lab.training.job import Data, TrainingJob, check_inputs
from hermes_lab.training.lock import LockedConfig, load_lock
from hermes_lab.training.lora import find_parent

REMEDY = "make a new lock with `hermes-lab train lock SRC -o LOCK`"


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model folder, and a cache of its own."""
    monkeypatch.setenv("HERMES_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "_read_here", {})
    folder = tmp_path / "base"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text("{}")
    write_base(folder)
    return folder


def make_lock(tmp_path: Path, **values: Any) -> str:
    return smoke_lock(tmp_path, "grpo", **values)


def grpo_config(lock: str, field: str, source: str) -> GrpoConfig:
    sources = {"rollouts": ["suite.name=ledger"], "heldout": ["suite.name=ledger", "suite.split=heldout"]}
    sources[field].append(source)
    return GrpoConfig(lock=lock, **{name: (*given, "learning.arms=[off]") for name, given in sources.items()})


BOTH = [
    ("model.name=other", "base_model"),
    ("model.base_url=http://elsewhere/v1", "rollout_server_url"),
    ("run.concurrency=64", "grpo.max_num_workers"),
    ("agent.max_seconds=9999", "grpo.worker_timeout"),
    ("model.sampling.max_tokens=9999", "grpo.max_reply_tokens"),
    ("model.server.args=[--model, other]", "base_model"),
]


@pytest.mark.parametrize(("source", "locked"), [*BOTH, ("suite.seed=7", "seed"), ("run.seed=7", "seed")])
def test_the_rollouts_are_refused_what_the_lock_decides(tmp_path: Path, source: str, locked: str) -> None:
    lock = make_lock(tmp_path)
    with pytest.raises(ConfigError, match=rf"{locked} is locked at .*; {REMEDY}"):
        training_batch(grpo_config(lock, "rollouts", source), load_lock(Path(lock)), 1, "", tmp_path)


@pytest.mark.parametrize(("source", "locked"), BOTH)
def test_an_evaluation_is_refused_what_the_lock_decides(tmp_path: Path, source: str, locked: str) -> None:
    lock = make_lock(tmp_path)
    with pytest.raises(ConfigError, match=rf"{locked} is locked at .*; {REMEDY}"):
        heldout_batch(grpo_config(lock, "heldout", source), load_lock(Path(lock)), "", tmp_path)


def test_an_evaluation_chooses_temperature_and_tasks_and_no_more(tmp_path: Path) -> None:
    lock = make_lock(tmp_path)
    locked = load_lock(Path(lock))
    given = ("suite.name=ledger", "suite.split=heldout", "learning.arms=[off]", "suite.seed=7")
    chosen = GrpoConfig(lock=lock, rollouts=given, heldout=(*given, "model.sampling.temperature=0.3"))
    run = heldout_batch(chosen, locked, "", tmp_path).config
    assert locked.grpo
    assert (run.model.sampling.temperature, run.suite.seed, run.run.samples) == (0.3, 7, 1)
    assert run.model.sampling.max_tokens == locked.grpo.max_reply_tokens
    assert run.agent.max_seconds == locked.grpo.worker_timeout


def test_a_forged_digest_in_the_cache_is_not_believed(base: Path) -> None:
    true = weights.digest(base)
    (kept,) = (weights.cache_dir() / "digests").iterdir()
    kept.write_text("f" * 64)
    assert weights.digest(base) == "f" * 64  # a run may be quick
    assert weights.training_digest(str(base), base) == true
    assert weights.digest(base) == true  # what a card says is what was read


def test_other_weights_are_not_packaged(base: Path) -> None:
    with pytest.raises(ConfigError, match=r"base_model is locked at 'packaged', which is sha256 16d12dc7ea19, but"):
        weights.training_digest("packaged", base)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"])
def test_every_file_of_a_tokenizer_is_in_its_digest(base: Path, name: str) -> None:
    before = weights.tokenizer_digest(base)
    (base / "README.md").write_text("no tokenizer")
    assert weights.tokenizer_digest(base) == before
    (base / name).write_text("changed")
    assert weights.tokenizer_digest(base) != before


def test_a_folder_without_a_tokenizer_has_no_digest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="contains no tokenizer"):
        weights.tokenizer_digest(tmp_path)


def test_a_resume_with_another_chat_template_is_refused(tmp_path: Path, base: Path) -> None:
    lock = make_lock(tmp_path, base_model=str(base), tokenizer=str(base))
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    config = TrainConfig(lock=lock, data=(str(tmp_path / "run"),), adapters=str(tmp_path / "adapters"))
    data = Data("d", 0, (), {})
    begin(config, data)
    again = config.model_copy(update={"resume": True})
    begin(again, data)
    check_inputs(again, load_lock(Path(lock)), None, data)
    (base / "chat_template.jinja").write_text("other")
    with pytest.raises(ConfigError, match="was started with another tokenizer"):
        begin(again, data)
    with pytest.raises(ConfigError, match="was started with another tokenizer"):  # a plan says so too
        check_inputs(again, load_lock(Path(lock)), None, data)
    check_inputs(config, load_lock(Path(lock)), None, data)  # a new training


def begin(config: TrainConfig, data: Data) -> None:
    """Begins a training, and ends it before its first step."""
    with TrainingJob.begin("sft", config, load_lock(Path(config.lock)), None, data, weights.silent, ""):
        pass


def test_a_version_in_training_cannot_be_resumed_by_another_process(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = make_lock(tmp_path, base_model=str(base), tokenizer=str(base))
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    config = TrainConfig(lock=lock, data=(str(tmp_path / "run"),), adapters=str(tmp_path / "adapters"))
    data, again = Data("d", 0, (), {}), config.model_copy(update={"resume": True})
    with TrainingJob.begin("sft", config, load_lock(Path(lock)), None, data, weights.silent, "") as training:
        with pytest.raises(ConfigError, match="sft-v1: another process is running it"):
            begin(again, data)
        begin(config, data)  # another version is not in the way
    (tmp_path / "adapters" / "sft-v2" / "card.json").write_text("{}")
    begin(again, data)

    @contextmanager
    def held_late(folder: Path, _: str) -> Iterator[None]:
        (folder / "card.json").write_text("{}")
        yield

    monkeypatch.setattr(job, "hold_folder", held_late)
    with pytest.raises(ConfigError, match="sft-v1 was finished by another process"):
        begin(again, data)
    assert training.training_run.folder.name == "sft-v1"


def test_a_resume_under_another_lock_is_refused(tmp_path: Path, base: Path) -> None:
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    given = {"data": (str(tmp_path / "run"),), "adapters": str(tmp_path / "adapters")}
    first, other = (tmp_path / name for name in ("first", "other"))
    first.mkdir()
    other.mkdir()
    locks = [
        make_lock(folder, base_model=str(base), tokenizer=str(base), learning_rate=rate)
        for folder, rate in ((first, 0.1), (other, 0.2))
    ]
    data = Data("d", 0, (), {})
    begin(TrainConfig(lock=locks[0], **given), data)
    again = TrainConfig(lock=locks[1], resume=True, **given)
    with pytest.raises(ConfigError, match="was started with another lock"):
        begin(again, data)


def test_a_parent_of_another_base_is_refused(tmp_path: Path, base: Path) -> None:
    lock = load_lock(Path(make_lock(tmp_path, base_model=str(base), tokenizer=str(base))))
    config = GrpoConfig(lock="", adapters=str(tmp_path / "adapters"), rollouts=("x",))
    own, other = (parent_on(tmp_path / "adapters", lock, digest) for digest in (weights.digest(base), "b" * 64))
    assert find_parent(config.model_copy(update={"parent": own.name}), lock) == own
    with pytest.raises(ConfigError, match=r"was trained on weights of sha256 bbbbbbbbbbbb, but base_model"):
        find_parent(config.model_copy(update={"parent": other.name}), lock)


def parent_on(root: Path, locked: LockedConfig, base_digest: str) -> Path:
    folder = new_version(root, "sft")
    write_adapter(folder, locked, weights=b"0" * 20)
    write_card(folder, card_of(folder, locked, base_digest=base_digest))
    return folder


def test_a_card_from_before_the_tokenizer_was_digested_still_holds(tmp_path: Path) -> None:
    folder = make_adapter(tmp_path)
    card = json.loads((folder / "card.json").read_text())
    del card["tokenizer_digest"]
    (folder / "card.json").write_text(json.dumps(card))
    check_card(folder, adapter_digest(folder))
    assert read_card(folder).tokenizer_digest == ""
