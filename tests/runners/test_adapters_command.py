"""`hermes-lab adapters`: looking at, serving and clearing away what was trained."""

import json
from pathlib import Path

import pytest
from fakes.adapters import make_adapter
from fakes.openai_server import FakeOpenAIServer, running

from hermes_lab.errors import ConfigError
from hermes_lab.models import weights
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.runners.cli import app


def run(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    assert app(["adapters", *map(str, args)], standalone_mode=False) in (None, 0)
    return capsys.readouterr().out


@pytest.mark.parametrize("command", ["list", "show", "score", "load", "unload", "merge", "prune"])
def test_every_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert f"hermes-lab adapters {command}" in " ".join(run(capsys, command, "--help").split())


def test_an_adapter_is_shown_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_adapter(tmp_path)
    assert adapter_digest(folder) in run(capsys, "show", "sft", "--root", tmp_path)
    shown = json.loads(run(capsys, "show", "sft-v1", "--root", tmp_path, "--json"))
    assert shown["chain"][0]["folder"] == str(folder)
    assert folder.name in run(capsys, "list", tmp_path)


def test_an_adapter_is_loaded_by_its_name_and_unloaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_adapter(tmp_path)
    with running(FakeOpenAIServer(["x"])) as server:
        name = run(capsys, "load", "sft", "--root", tmp_path, "--base-url", server.base_url).split()[0]
        assert server.adapters == {name: str(folder)}
        run(capsys, "unload", name, "--base-url", server.base_url)
        assert server.adapters == {}


def test_nothing_is_pruned_without_apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = make_adapter(tmp_path), make_adapter(tmp_path)
    pruned = ("prune", "--root", tmp_path, "--runs", tmp_path)
    assert run(capsys, *pruned) == f"would remove {old}: superseded by sft-v2\n"
    assert old.exists()
    assert run(capsys, *pruned, "--apply") == f"removed {old}: superseded by sft-v2\n"
    assert [path.name for path in tmp_path.iterdir()] == [new.name]


def test_a_merge_needs_a_new_folder_and_the_base_that_was_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text("{}")
    (base / "model.safetensors").write_bytes(b"weights")
    monkeypatch.setenv("HERMES_LAB_CACHE", str(tmp_path / "cache"))
    make_adapter(tmp_path)
    merged = ("merge", "sft", "--root", tmp_path, "--base", base, "-o")
    with pytest.raises(ConfigError, match=rf"merge: {tmp_path} exists; give another folder"):
        run(capsys, *merged, tmp_path)
    with pytest.raises(ConfigError, match=r"base is not the base model that sft-v1 was trained on"):
        run(capsys, *merged, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    make_adapter(tmp_path, base_digest=weights.digest(base))
    with pytest.raises(ConfigError, match=r"base/model.safetensors: not a safetensors file"):  # such weights are none
        run(capsys, *merged, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_foreign_adapter_is_merged_only_with_a_base(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_adapter(tmp_path)
    (folder / "card.json").unlink()
    with pytest.raises(ConfigError, match=r"sft-v1 has no card that names the base model; give it with --base"):
        run(capsys, "merge", folder, "-o", tmp_path / "out")
    with pytest.raises(ConfigError, match=r"'sft': no such adapter"):
        run(capsys, "show", "sft", "--root", tmp_path)
