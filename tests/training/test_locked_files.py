"""What a lock fixes besides its values: the weights, config.json, the tokenizer and the chat template."""

import re
import shutil
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path

import huggingface_hub
import pytest
from fakes.adapters import card_of, write_adapter, write_base
from fakes.training import smoke_lock

from hermes_lab.errors import ConfigError
from hermes_lab.models import weights
from hermes_lab.runners.cli import app
from hermes_lab.training.adapters import new_version, write_card
from hermes_lab.training.config import TrainConfig
from hermes_lab.training.grpo import train_grpo
from hermes_lab.training.grpo_config import GrpoConfig
from hermes_lab.training.grpo_plan import plan_grpo
from hermes_lab.training.job import Data, TrainingJob, check_start
from hermes_lab.training.lock import load_lock, lock_digest, unpinned, write_lock
from hermes_lab.training.locked_files import check_locked_files

REMEDY = "make a new lock with `hermes-lab train lock SRC -o LOCK`"
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json")


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A base model with a tokenizer, and a cache of its own."""
    monkeypatch.setenv("HERMES_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "_read_here", {})
    folder = tmp_path / "base"
    folder.mkdir()
    for name in ("config.json", *TOKENIZER):
        (folder / name).write_text("{}")
    write_base(folder)
    return folder


def lock_of(tmp_path: Path, base: Path, method: str = "sft") -> str:
    return smoke_lock(tmp_path, "sft" if method == "sft" else "grpo", base_model=str(base), tokenizer=str(base))


def edit(name: str) -> Callable[[Path], object]:
    return lambda base: (base / name).write_text('{"edited": 1}')


EDITS: dict[str, tuple[str, Callable[[Path], object]]] = {
    **{name: ("tokenizer", edit(name)) for name in TOKENIZER},
    "vocab.json": ("tokenizer", edit("vocab.json")),
    "a file removed": ("tokenizer", lambda base: (base / "chat_template.jinja").unlink()),
    "a template added": (
        "tokenizer",
        lambda base: [(base / "additional_chat_templates").mkdir(), edit("additional_chat_templates/x.jinja")(base)],
    ),
    "config.json": ("base_model", edit("config.json")),
    "weights": (
        "base_model",
        lambda base: (base / "model.safetensors").write_bytes((base / "model.safetensors").read_bytes()[:-1] + b"1"),
    ),
    "weights added": ("base_model", lambda base: (base / "more.safetensors").write_bytes(b"")),
}


def start(method: str, lock: str, out: Path) -> None:
    """The beginning of a training."""
    if method == "sft":
        check_start(TrainConfig.model_construct(lock=lock, parent="", resume=False), load_lock(Path(lock)))
    else:
        rollouts = ("suite.name=ledger", "learning.arms=[off]")
        config = GrpoConfig(lock=lock, rollouts=rollouts, out=str(out))
        if method == "plan":
            plan_grpo(config, load_lock(Path(lock)))
        else:
            train_grpo(config, None, print)  # type: ignore[arg-type]


@pytest.mark.parametrize("change", EDITS)
@pytest.mark.parametrize("method", ["sft", "grpo", "plan"])
def test_what_was_edited_after_the_lock_is_refused(tmp_path: Path, base: Path, change: str, method: str) -> None:
    lock, (field, edit_it) = lock_of(tmp_path, base, method), EDITS[change]
    check_locked_files(load_lock(Path(lock)))
    (base / "README.md").write_text("no part of it")
    (base / "generation_config.json").write_text("{}")  # ignored by vLLM, and by a training
    check_locked_files(load_lock(Path(lock)))
    edit_it(base)
    problem = rf"^lock: {field} '{base}': sha256 \w{{12}} in {base}, but locked at \w{{12}}: .* {REMEDY}$"
    with pytest.raises(ConfigError, match=problem):
        start(method, lock, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_folder_under_the_same_relative_name_is_refused(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(lock_of(tmp_path, Path("base")))
    monkeypatch.chdir(tmp_path)
    write_lock(source, tmp_path / "relative.yaml")
    locked = load_lock(tmp_path / "relative.yaml")
    check_locked_files(locked)
    elsewhere = tmp_path / "elsewhere" / "base"
    elsewhere.mkdir(parents=True)
    for path in base.iterdir():
        (elsewhere / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path / "elsewhere")
    check_locked_files(locked)  # the same files are the same model
    (elsewhere / "config.json").write_text('{"rope_theta": 1}')
    with pytest.raises(ConfigError, match=rf"base_model 'base': .* in {elsewhere}, but locked at"):
        check_locked_files(locked)


def test_a_lock_of_an_earlier_version_keeps_its_digest_and_is_not_compared(tmp_path: Path, base: Path) -> None:
    for path in Path("configs/locks").glob("*.yaml"):
        locked = load_lock(path)
        assert (locked.model_digest, locked.tokenizer_digest) == (None, None)
        write_lock(path, tmp_path / path.name)  # packaged
        assert lock_digest(load_lock(tmp_path / path.name)) == lock_digest(locked)
    old = load_lock(Path(lock_of(tmp_path, base))).model_copy(update={"model_digest": None, "tokenizer_digest": None})
    (base / "chat_template.jinja").write_text("other")
    check_locked_files(old)


def test_a_new_lock_is_made_of_what_is_there_or_of_what_its_source_says(tmp_path: Path, base: Path) -> None:
    first = Path(lock_of(tmp_path, base))
    before = load_lock(first)
    (base / "chat_template.jinja").write_text("other")
    write_lock(first, tmp_path / "second.yaml")
    second = load_lock(tmp_path / "second.yaml")
    assert second.model_digest == before.model_digest
    assert second.tokenizer_digest == weights.tokenizer_digest(base) != before.tokenizer_digest
    check_locked_files(second)
    base.rename(tmp_path / "gone")
    write_lock(first, tmp_path / "third.yaml")
    assert load_lock(tmp_path / "third.yaml") == before


def test_a_lock_that_pins_no_files_is_told_when_it_is_made_and_when_it_trains(
    tmp_path: Path, base: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pinned = lock_of(tmp_path, base)
    base.rename(tmp_path / "not-yet")
    source = tmp_path / "source.yaml"
    source.write_text(re.sub(r"(model_digest|tokenizer_digest|digest): .*\n", "", Path(pinned).read_text()))
    warning = f"warning: the lock has no digest of the weights of {base} and the tokenizer of {base}: it was made "
    app(["train", "lock", str(source), "-o", str(tmp_path / "unpinned.yaml")], standalone_mode=False)
    told = capfd.readouterr().err
    assert warning in told
    assert "run `hermes-lab train lock LOCK -o NEW` where it is downloaded" in told.replace("\n", " ")
    (tmp_path / "not-yet").rename(base)
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    config = TrainConfig(lock="", data=(str(tmp_path / "run"),), adapters=str(tmp_path / "adapters"))
    said: list[str] = []
    locked, data = load_lock(tmp_path / "unpinned.yaml"), Data("d", 0, (), {})
    with TrainingJob.begin("sft", config, locked, None, data, said.append, ""):
        pass
    assert said[0].startswith(warning)
    # As the warning says: a new lock, made where the files are.
    app(["train", "lock", str(tmp_path / "unpinned.yaml"), "-o", str(tmp_path / "new.yaml")], standalone_mode=False)
    assert "warning" not in capfd.readouterr().err
    assert load_lock(tmp_path / "new.yaml") == load_lock(Path(pinned))


def test_half_a_lock_names_the_half_that_is_not_pinned() -> None:
    locked = load_lock(Path("configs/locks/sft-cpu.yaml"))
    assert unpinned(locked) == ""
    other = locked.model_copy(update={"base_model": "a/b", "tokenizer": "c/d", "tokenizer_digest": "f" * 64})
    assert unpinned(other).startswith("the lock has no digest of the weights of a/b: ")


def test_a_digest_pasted_from_another_lock_is_refused(tmp_path: Path, base: Path) -> None:
    lock = Path(lock_of(tmp_path, base))
    text = lock.read_text()
    lock.write_text(text.replace(str(load_lock(lock).tokenizer_digest), "0" * 64))
    with pytest.raises(ConfigError, match="a locked field was changed by hand"):
        load_lock(lock)


def test_a_parent_with_another_tokenizer_is_refused(tmp_path: Path, base: Path) -> None:
    lock = lock_of(tmp_path, base)
    locked = load_lock(Path(lock))
    root = tmp_path / "adapters"
    digests = {"base_digest": weights.digest(base), "tokenizer_digest": weights.tokenizer_digest(base)}
    names = []
    for changed in ({}, {"tokenizer_digest": "c" * 64}, {"tokenizer_digest": ""}):
        folder = new_version(root, "sft")
        write_adapter(folder, locked, weights=folder.name.encode())
        write_card(folder, card_of(folder, locked, **(digests | changed)))
        names.append(folder.name)

    def begin(parent: str) -> Path | None:
        config = TrainConfig.model_construct(lock=lock, parent=parent, resume=False, adapters=str(root))
        return check_start(config, locked)

    assert begin(names[0]) == root / names[0]
    assert begin(names[2]) == root / names[2]  # an older card does not say
    with pytest.raises(
        ConfigError, match=r"train.parent: .*sft-v2 was trained with a tokenizer .* sha256 cccccccccccc"
    ):
        begin(names[1])


def test_a_plan_of_grpo_refuses_a_parent_of_another_base(tmp_path: Path, base: Path) -> None:
    lock = lock_of(tmp_path, base, "grpo")
    root, other = tmp_path / "adapters", load_lock(Path(lock)).model_copy(update={"base_model": "owner/other"})
    folder = new_version(root, "sft")
    write_adapter(folder, other, weights=b"")
    write_card(folder, card_of(folder, other))
    rollouts = ("suite.name=ledger", "learning.arms=[off]")
    config = GrpoConfig(lock=lock, rollouts=rollouts, parent="sft", adapters=str(root), out=str(tmp_path / "out"))
    with pytest.raises(ConfigError, match=r"train.parent: .*sft-v1 has base_model 'owner/other', not "):
        plan_grpo(config, load_lock(Path(lock)))


@pytest.fixture
def hub(tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model hub with the base model as `owner/base`. Returns the folder to which its files are downloaded."""
    cache = tmp_path / "hub"

    def snapshot_download(name: str, *, allow_patterns: Sequence[str] = (), local_files_only: bool = False) -> str:
        assert name == "owner/base"
        if local_files_only and not cache.is_dir():
            raise FileNotFoundError(name)
        cache.mkdir(exist_ok=True)
        for path in base.iterdir():
            if any(fnmatch(path.name, pattern) for pattern in allow_patterns):
                shutil.copy(path, cache)
        return str(cache)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return cache


def test_a_plan_downloads_no_weights_and_compares_those_that_are_there(tmp_path: Path, base: Path, hub: Path) -> None:
    digests = {"model_digest": weights.model_digest(base), "tokenizer_digest": weights.tokenizer_digest(base)}
    lock = smoke_lock(tmp_path, "sft", base_model="owner/base", tokenizer="owner/base", **digests)
    locked, root = load_lock(Path(lock)), tmp_path / "adapters"
    parent = new_version(root, "sft")
    write_adapter(parent, locked, weights=b"")
    made_with = {"base_digest": weights.digest(base), "tokenizer_digest": digests["tokenizer_digest"]}
    write_card(parent, card_of(parent, locked, **made_with))
    config = TrainConfig.model_construct(lock=lock, parent="sft", resume=False, adapters=str(root))
    assert check_start(config, locked, planned=True) == parent
    assert sorted(path.name for path in hub.iterdir()) == sorted(("config.json", *TOKENIZER))
    edit("chat_template.jinja")(hub)
    (base / "chat_template.jinja").write_text((hub / "chat_template.jinja").read_text())
    with pytest.raises(ConfigError, match=r"tokenizer 'owner/base'.* its files or its chat template were changed"):
        check_start(config, locked, planned=True)
    (base / "chat_template.jinja").write_text("{}")
    assert check_start(config, locked) == parent
    assert (hub / "model.safetensors").exists()
    edit("config.json")(hub)
    (base / "config.json").write_text((hub / "config.json").read_text())
    with pytest.raises(ConfigError, match=r"base_model 'owner/base'.* its weights or config.json were changed"):
        check_start(config, locked, planned=True)


@pytest.fixture
def packaged(base: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The packaged model as another version of transformers would convert it."""
    folder = weights.packaged_folder()
    folder.parent.mkdir(parents=True)
    base.rename(folder)
    monkeypatch.setattr(weights, "PACKAGED_DIGEST", weights.digest(folder))
    weights._record_of_files().write_text(weights._files_digest(folder))
    return folder


@pytest.mark.parametrize("name", ["config.json", *TOKENIZER])
def test_the_packaged_model_is_compared_with_what_its_conversion_wrote(packaged: Path, name: str) -> None:
    locked = load_lock(Path("configs/locks/sft-cpu.yaml"))
    check_locked_files(locked)
    edit(name)(packaged)
    with pytest.raises(ConfigError, match=rf"config.json, the tokenizer or the chat template in {packaged} was edited"):
        check_locked_files(locked)


def test_a_packaged_model_of_an_earlier_version_is_compared_with_what_we_know(
    packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights._record_of_files().unlink()
    with pytest.raises(ConfigError, match="delete that folder to convert it again"):
        weights.check_packaged_files()
    monkeypatch.setattr(weights, "PACKAGED_FILES_DIGEST", weights._files_digest(packaged))
    weights.check_packaged_files()
