"""Ways to tamper with a lock beside editing a value: each is refused with its place, or changes nothing."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.adapters import make_adapter

from hermes_lab.errors import ConfigError
from hermes_lab.models.adapters import identify
from hermes_lab.training.config import TrainConfig, load_train_config
from hermes_lab.training.lock import load_lock, lock_digest, write_lock
from hermes_lab.training.lock_enforcement import locked_run_config
from hermes_lab.training.training_run import TrainingRun

SHIPPED = Path("configs/locks/grpo-cpu.yaml")
REMEDY = "make a new lock with `hermes-lab train lock SRC -o LOCK`"
BY_HAND = rf"lock.yaml: a locked field was changed by hand: its digest differs; {REMEDY}"
OTHER = "f" * 64


def put(field: str, line: str) -> Callable[[str], str]:
    """Replaces the line of a field."""

    def change(text: str) -> str:
        changed, found = re.subn(rf"^{field}: .*$", lambda _: line, text, flags=re.M)
        assert found == 1
        return changed

    return change


def more(lines: str, *, first: bool = False) -> Callable[[str], str]:
    """Adds lines at the end or the beginning."""
    return lambda text: f"{lines}\n{text}" if first else f"{text}{lines}\n"


REFUSED: dict[str, tuple[Callable[[str], str], str]] = {
    "a look-alike in Cyrillic": (more("le\u0430rning_rate: 0.9"), "le\u0430rning_rate: unknown field; .* did you mean"),
    "a look-alike of full width": (more("\uff4cearning_rate: 0.9"), "unknown field; .* did you mean learning_rate"),
    "a space of no width": (more("learning\u200b_rate: 0.9"), "unknown field; .* did you mean learning_rate"),
    "a space that does not break": (more("learning_rate\u00a0: 0.9"), "unknown field; .* did you mean learning_rate"),
    "a quoted blank": (more("'learning_rate ': 0.9"), "unknown field; .* did you mean learning_rate"),
    "another case": (more("Learning_Rate: 0.9"), "Learning_Rate: unknown field"),
    "a dotted key": (more("grpo.temperature: 0.1"), "grpo.temperature: unknown field"),
    "an unknown section": (more("optimizer: {learning_rate: 0.9}"), "optimizer: unknown field"),
    "an unknown field of a section": (put("  temperature", "  temperature: 1.0\n  top_p: 0.1"), "grpo.top_p: unknown"),
    "the same field again": (more("learning_rate: 0.9", first=True), "learning_rate: is set twice, first in line 1"),
    "the same section again": (more("grpo: {temperature: 2.0}"), r"grpo: is set twice, first in line \d+"),
    "the digest again": (more(f"digest: {OTHER}"), r"digest: is set twice, first in line \d+"),
    "an escaped spelling": (more('"learning\\x5frate": 0.9'), r"learning_rate: is set twice, first in line \d+"),
    "an anchor with another value": (put("warmup_steps", "warmup_steps: &n 3\n"), BY_HAND),
    "an alias to another value": (
        lambda text: put("batch_size", "batch_size: *n")(put("total_steps", "total_steps: &n 40")(text)), BY_HAND),
    "a merged section": (put("  temperature", "  <<: {temperature: 2.0}"), BY_HAND),
    "two merged sections": (more("<<: {}\n<<: {}"), r"<<: is set twice, first in line \d+"),
    "a second document": (more("---\nlearning_rate: 0.9"), "expected a single document"),
    "a document before": (more("learning_rate: 0.9\n---", first=True), "expected a single document"),
    "a document that ends early": (more("...\nlearning_rate: 0.9"), "expected '<document start>'"),
    "a comment that ends": (more("# decided on Monday\u2028learning_rate: 0.9"), "contains U\\+2028, which YAML reads"),
    "a comment that ends, too": (more("# decided on Monday\u0085seed: 9"), "contains U\\+0085, which YAML reads"),
    "a commented field": (put("warmup_steps", "#warmup_steps: 0"), "warmup_steps: is required"),
    "a control character": (put("seed", "seed: 0\x08"), r"lock.yaml:\d+: contains the control character U\+0008"),
    "a variable": (put("learning_rate", "learning_rate: ${LR}"), "learning_rate: must be a number"),
    "a variable in a name": (put("base_model", "base_model: $HOME/base"), BY_HAND),
    "code": (put("seed", "seed: !!python/object/apply:os.system ['true']"), "seed.0: could not determine"),
    "a number as a text": (put("batch_size", 'batch_size: "8"'), "batch_size: must be an integer"),
    "a number as a switch": (put("batch_size", "batch_size: true"), "batch_size: must be an integer"),
    "a switch as a number": (put("use_wandb", "use_wandb: 0"), "use_wandb: must be true or false"),
    "nothing": (put("seed", "seed:"), "seed: must be an integer"),
    "a section as nothing": (lambda text: re.sub(r"^grpo:(?:\n+ .*)+", "grpo:", text, flags=re.M), BY_HAND),
    "a digest of another lock": (put("digest", f"digest: {OTHER}"), BY_HAND),
    "a digest in capitals": (lambda text: re.sub(r"(?<=digest: )\w+", lambda m: m[0].upper(), text), BY_HAND),
    "a part of the digest": (lambda text: re.sub(r"(?<=digest: )\w+", lambda m: m[0][:12], text), BY_HAND),
    "no digest": (put("digest", ""), f"lock.yaml: it has no digest; {REMEDY}"),
    "an empty digest": (put("digest", "digest: ''"), f"lock.yaml: it has no digest; {REMEDY}"),
    "a path with the same end": (put("base_model", "base_model: ./packaged"), BY_HAND),
    "a digest of files": (more(f"tokenizer_digest: {OTHER}"), BY_HAND),
}  # fmt: skip


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "lock.yaml"
    path.write_text(SHIPPED.read_text())
    return path


@pytest.mark.parametrize("way", REFUSED)
def test_a_way_is_refused_with_its_place(lock: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LR", "0.9")
    change, problem = REFUSED[way]
    text = change(lock.read_text())
    assert text != lock.read_text()
    lock.write_bytes(text.encode())
    with pytest.raises(ConfigError, match=problem) as error:
        load_lock(lock)
    assert str(lock) in str(error.value)
    assert "\n" not in str(error.value)


HARMLESS: dict[str, Callable[[str], str | bytes]] = {
    "a byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "the ends of lines of Windows": lambda text: text.replace("\n", "\r\n").encode(),
    "the ends of lines of old Macs": lambda text: text.replace("\n", "\r").encode(),
    "another format of a number": put("learning_rate", f"learning_rate: {0.0001:.1E}"),
    "a number in base 16": put("total_steps", "total_steps: 0x8"),
    "an integer as a number": put("  temperature", "  temperature: 1"),
    "an anchor of the same value": lambda text: put("batch_size", "batch_size: *n")(
        put("total_steps", "total_steps: &n 8")(text)
    ),
    "quotes": put("base_model", 'base_model: "packaged"'),
    "another order": lambda text: re.sub(r"^(seed: .*\n)([\s\S]*)", r"\2\1", text, flags=re.M),
    "a document start": lambda text: f"%YAML 1.2\n---\n{text}",
    "a comment": lambda text: re.sub(r"^digest", "# learning_rate: 0.9\ndigest", text, flags=re.M),
}


@pytest.mark.parametrize("way", HARMLESS)
def test_what_changes_no_value_changes_nothing(lock: Path, way: str) -> None:
    before = load_lock(lock)
    changed = HARMLESS[way](lock.read_text())
    assert changed not in (lock.read_text(), lock.read_bytes())
    lock.write_bytes(changed if isinstance(changed, bytes) else changed.encode())
    assert load_lock(lock) == before
    assert lock_digest(load_lock(lock)) == lock_digest(before)


def another(tmp_path: Path) -> Path:
    """Another lock, which is right by itself."""
    source = tmp_path / "source.yaml"
    source.write_text(put("learning_rate", "learning_rate: 0.9")(SHIPPED.read_text()))
    write_lock(source, tmp_path / "other.yaml")
    return tmp_path / "other.yaml"


def test_a_file_is_read_once_so_that_it_cannot_be_swapped_between_check_and_use() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as file:
        file.write(SHIPPED.read_bytes())
    try:
        assert load_lock(Path(f"/dev/fd/{reading}")) == load_lock(SHIPPED)  # a pipe cannot be read again
    finally:
        os.close(reading)


def test_a_link_that_is_swapped_later_changes_nothing_of_the_training(tmp_path: Path) -> None:
    link = tmp_path / "link.yaml"
    link.symlink_to(SHIPPED.resolve())
    locked = load_lock(link)
    link.unlink()
    link.symlink_to(another(tmp_path))
    run = locked_run_config(["suite.name=ledger"], locked, str(link))
    assert locked == load_lock(SHIPPED)
    assert run.model.sampling.temperature == 1.0


def test_a_lock_that_is_replaced_before_a_resume_is_refused(tmp_path: Path, lock: Path) -> None:
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    config = TrainConfig(lock=str(lock), data=(str(tmp_path / "run"),), adapters=str(tmp_path / "adapters"))
    TrainingRun.begin(config, {"lock": lock_digest(load_lock(lock))})
    lock.write_text(another(tmp_path).read_text())
    again = config.model_copy(update={"resume": True})
    with pytest.raises(ConfigError, match=r"resume: .*sft-v1 was started with another lock; start without resume"):
        TrainingRun.begin(again, {"lock": lock_digest(load_lock(lock))})


def test_a_card_of_another_lock_is_refused(tmp_path: Path) -> None:
    folder = make_adapter(tmp_path)
    other = load_lock(another(tmp_path))
    card = json.loads((folder / "card.json").read_text())
    card |= {"locked": other.content(), "lock_digest": lock_digest(other), "base_model": other.base_model}
    (folder / "card.json").write_text(json.dumps(card))
    with pytest.raises(ConfigError, match=rf"card.json: locked.\w+(\.\w+)? is .*, but was locked at .*{REMEDY}"):
        identify(folder)


@pytest.mark.parametrize(
    "line", ["le\u0430rning_rate: 0.9", "'learning_rate ': 0.9", "Learning_Rate: 0.9", "LEARNING-RATE: 0.9"]
)
def test_a_configuration_does_not_set_a_locked_field_under_a_similar_name(
    tmp_path: Path, lock: Path, line: str
) -> None:
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    (tmp_path / "train.yaml").write_text(f"lock: lock.yaml\ndata: [run]\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"train.yaml:3: .*: unknown field"):
        load_train_config([str(tmp_path / "train.yaml")])


def test_a_lock_is_relative_to_the_file_that_names_it_not_to_where_it_is_started(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    (tmp_path / "train.yaml").write_text("lock: lock.yaml\ndata: [run]\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock.yaml").write_text(another(tmp_path).read_text())
    monkeypatch.chdir(elsewhere)
    assert Path(load_train_config([str(tmp_path / "train.yaml")]).lock).resolve() == lock


def test_a_package_named_configs_on_the_path_shadows_nothing(tmp_path: Path) -> None:
    for name in ("configs", "yaml_files"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('shadowed')\n")
    code = (
        "from pathlib import Path; from hermes_lab import configs; from hermes_lab.training.lock import load_lock\n"
        f"print(load_lock(Path({str(SHIPPED.resolve())!r})).learning_rate)"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert float(done.stdout) == load_lock(SHIPPED).learning_rate
