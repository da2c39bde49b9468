"""Cards: every version is read, and an adapter's shape is compared with what was locked."""

import json
from pathlib import Path

import pytest
from fakes.adapters import LOCK, card_of, make_adapter, write_adapter
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.errors import ConfigError
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.cards import check_card, read_card, values_digest
from hermes_lab.training.adapters import write_card
from hermes_lab.training.lock import load_lock

VALUES = st.dictionaries(st.text(), st.integers() | st.booleans() | st.text() | st.floats(allow_nan=False), max_size=5)


def test_a_card_of_the_first_version_is_read_and_upgraded(tmp_path: Path) -> None:
    folder = make_adapter(tmp_path)
    today = read_card(folder)
    old = json.loads((folder / "card.json").read_text()) | {"v": 1, "loss": 0.125}
    for new_field in ("method", "metrics", "command", "compressed"):
        old.pop(new_field)
    (folder / "card.json").write_text(json.dumps(old))
    card = read_card(folder)
    assert (card.v, card.method, card.metrics, card.command) == (2, "sft", {"loss": 0.125}, "")
    assert (card.digest, card.locked) == (today.digest, today.locked)
    check_card(folder, card.digest)


@given(VALUES, st.randoms())
def test_the_digest_of_values_is_that_of_no_order(values: dict[str, object], random: object) -> None:
    shuffled = list(values.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert values_digest(dict(shuffled)) == values_digest(values)
    assert values_digest(json.loads(json.dumps(values))) == values_digest(values)


@pytest.mark.parametrize(
    ("locked", "found", "fits"),
    [
        ("all-linear", "all-linear", True),
        ("all-linear", ["v_proj", "q_proj"], True),
        ("all-linear", ["lm_head", "q_proj"], False),
        ("all-linear", [], False),
        ("all-linear", "q_proj", False),
        ("q_proj", "q_proj", True),
        ("q_proj", ["q_proj"], True),
        ("q_proj", ["q_proj", "k_proj"], False),
    ],
)
def test_targets_are_compared_as_peft_writes_them(tmp_path: Path, locked: str, found: object, fits: bool) -> None:
    values = load_lock(LOCK).model_copy(update={"lora_target": locked})
    write_adapter(tmp_path, values, weights=b"\0\0")
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    (tmp_path / "adapter_config.json").write_text(json.dumps(config | {"target_modules": found}))
    write_card(tmp_path, card_of(tmp_path, values))
    if fits:
        check_card(tmp_path, adapter_digest(tmp_path))
        return
    with pytest.raises(ConfigError, match=r"card.json: locked.lora_target is"):
        check_card(tmp_path, adapter_digest(tmp_path))


@pytest.mark.parametrize("weights", [b"", b"\xff" * 8, b"\x02\0\0\0\0\0\0\0[]", b"\x02\0\0\0\0\0\0\0{"])
def test_weights_that_are_no_safetensors_are_named(tmp_path: Path, weights: bytes) -> None:
    folder = make_adapter(tmp_path)
    (folder / "adapter_model.safetensors").write_bytes(weights)
    with pytest.raises(ConfigError, match=r"adapter_model.safetensors: not a safetensors file"):
        check_card(folder, adapter_digest(folder))
