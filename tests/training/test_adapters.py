from pathlib import Path

import msgspec
import pytest
from fakes.adapters import make_adapter as make

from hermes_lab.errors import ConfigError
from hermes_lab.models import adapters
from hermes_lab.models.cards import read_card
from hermes_lab.training.adapters import find_adapter, list_adapters, new_version, write_card


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
    weights = make(tmp_path) / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes() + b"more")
    with pytest.raises(ConfigError, match="not the trained ones"):
        find_adapter("sft", tmp_path)


def test_a_card_reads_back_and_a_person_can_read_it_too(tmp_path: Path) -> None:
    folder = make(tmp_path)
    card = read_card(folder)
    assert (card.name, card.metrics["loss"], card.refused) == ("sft-v1", 0.25, {"not accepted": 3})
    text = (folder / "README.md").read_text()
    for part in (card.digest, card.data_digest, "| refused: not accepted | 3 |", "| lora_rank | 8 |"):
        assert part in text
    assert "parent" not in text


def test_the_readme_names_the_values_of_a_section(tmp_path: Path) -> None:
    folder = make(tmp_path)
    card = read_card(folder)
    write_card(folder, msgspec.structs.replace(card, locked=card.locked | {"grpo": {"group_size": 4}}))
    assert "| grpo.group_size | 4 |" in (folder / "README.md").read_text()


def test_the_readme_names_the_parent(tmp_path: Path) -> None:
    folder = make(tmp_path)
    write_card(folder, msgspec.structs.replace(read_card(folder), parent="sft-v0", parent_digest="p" * 64))
    assert f"| parent sft-v0 | `{'p' * 64}` |" in (folder / "README.md").read_text()


def test_a_broken_card_is_named(tmp_path: Path) -> None:
    folder = make(tmp_path)
    (folder / "card.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"card.json: not an adapter card"):
        read_card(folder)


def test_the_packaged_adapter_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "_PACKAGED_FOLDER", tmp_path / "packaged_adapter")
    with pytest.raises(ConfigError, match=r"model.adapter: this installation has no bundled `packaged` adapter"):
        find_adapter("packaged", tmp_path)
    make(tmp_path).rename(tmp_path / "packaged_adapter")
    assert find_adapter("packaged", tmp_path) == tmp_path / "packaged_adapter"
