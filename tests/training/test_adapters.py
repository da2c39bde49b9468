from pathlib import Path

import msgspec
import pytest

from hermes_lab.errors import ConfigError
from hermes_lab.models.adapters import adapter_digest
from training.adapters import Card, find_adapter, list_adapters, new_version, read_card, write_card


def make(root: Path, name: str = "sft", created_at: str = "2026-01-01") -> Path:
    folder = new_version(root, name)
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.safetensors").write_bytes(folder.name.encode())
    card = Card(
        name=folder.name,
        digest=adapter_digest(folder),
        base_model="packaged",
        base_digest="b" * 64,
        parent="",
        parent_digest="",
        lock_digest="l" * 64,
        locked={"lora_rank": 16},
        runs=("runs/a",),
        data_digest="d" * 64,
        refused={"not accepted": 3},
        rows=5,
        tokens=500,
        trained_tokens=100,
        steps=2,
        loss=0.25,
        seconds=12.0,
        versions={"torch": "2"},
        created_at=created_at,
    )
    write_card(folder, card)
    return folder


def test_each_training_is_a_new_version(tmp_path: Path) -> None:
    names = [make(tmp_path).name, make(tmp_path, "sft-big").name, make(tmp_path).name]
    assert names == ["sft-v1", "sft-big-v1", "sft-v2"]


def test_an_unfinished_version_keeps_its_number(tmp_path: Path) -> None:
    new_version(tmp_path, "sft")
    assert make(tmp_path).name == "sft-v2"


def test_the_list_holds_finished_adapters_oldest_first(tmp_path: Path) -> None:
    late, early = make(tmp_path, created_at="2026-02-02"), make(tmp_path / "deeper", created_at="2026-01-01")
    new_version(tmp_path, "unfinished")
    assert [folder for folder, _ in list_adapters(tmp_path)] == [early, late]


def test_an_adapter_is_found_by_folder_version_or_name(tmp_path: Path) -> None:
    folders = [make(tmp_path) for _ in range(11)]
    new_version(tmp_path, "sft")
    assert find_adapter(str(folders[0]), tmp_path) == folders[0]
    assert find_adapter("sft-v2", tmp_path) == folders[1]
    assert find_adapter("sft", tmp_path) == folders[10]


def test_an_unknown_adapter_is_an_error_that_lists_the_known(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(ConfigError, match=r"'grpo': no such adapter; .* holds sft-v1"):
        find_adapter("grpo", tmp_path)


def test_an_adapter_whose_weights_changed_is_refused(tmp_path: Path) -> None:
    (make(tmp_path) / "adapter_model.safetensors").write_bytes(b"other")
    with pytest.raises(ConfigError, match="not those that were trained"):
        find_adapter("sft", tmp_path)


def test_a_card_reads_back_and_a_person_can_read_it_too(tmp_path: Path) -> None:
    folder = make(tmp_path)
    card = read_card(folder)
    assert (card.name, card.loss, card.refused) == ("sft-v1", 0.25, {"not accepted": 3})
    text = (folder / "README.md").read_text()
    for part in (card.digest, card.data_digest, "| refused: not accepted | 3 |", "| lora_rank | 16 |"):
        assert part in text
    assert "parent" not in text


def test_the_readme_names_the_parent(tmp_path: Path) -> None:
    folder = make(tmp_path)
    write_card(folder, msgspec.structs.replace(read_card(folder), parent="sft-v0", parent_digest="p" * 64))
    assert f"| parent sft-v0 | `{'p' * 64}` |" in (folder / "README.md").read_text()


def test_a_broken_card_is_named(tmp_path: Path) -> None:
    folder = make(tmp_path)
    (folder / "card.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"card.json: not an adapter card"):
        read_card(folder)
