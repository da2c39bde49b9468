"""The wheel and the source distribution of a release."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import hermes_lab

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EPOCH = "1700000000"


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pinned build backend."""
    target = tmp_path_factory.mktemp("backend")
    (pinned,) = PROJECT["build-system"]["requires"]
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(target)]
    subprocess.run([*command, pinned], check=True)
    return target


@pytest.fixture(scope="module")
def builds(backend: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The results of two builds from copies that differ in path, times, permissions and order of files."""
    return [build(backend, tmp_path_factory.mktemp("copy"), mask) for mask in (0o022, 0o077)]


def build(backend: Path, folder: Path, mask: int) -> Path:
    source = folder / f"source-{mask}"
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout
    names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
    for name in names if mask == 0o022 else reversed(names):
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            path.symlink_to((ROOT / name).readlink())
        else:
            shutil.copyfile(ROOT / name, path)
            path.chmod(0o666 & ~mask)
            os.utime(path, (mask, mask))
    environment = {**os.environ, "PYTHONPATH": str(backend), "SOURCE_DATE_EPOCH": EPOCH}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder / "dist")]
    before = os.umask(mask)
    try:
        subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    finally:
        os.umask(before)
    return folder / "dist"


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.long
def test_two_builds_are_the_same_byte_for_byte(builds: list[Path]) -> None:
    first, second = map(digests, builds)
    assert first == second
    version = PROJECT["project"]["version"]
    assert first.keys() == {f"hermes_lab-{version}.tar.gz", f"hermes_lab-{version}-py3-none-any.whl"}


@pytest.mark.long
def test_the_wheel_has_every_module_once_and_nothing_else_at_its_top(builds: list[Path]) -> None:
    (wheel,) = builds[0].glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert len(names) == len(set(names))
    assert {name.split("/")[0] for name in names} == {
        "hermes_lab",
        f"hermes_lab-{PROJECT['project']['version']}.dist-info",
    }
    modules = {path.relative_to(ROOT) for path in ROOT.glob("hermes_lab/**/*.py")}
    modules |= {Path("hermes_lab", path.relative_to(ROOT)) for part in ("analysis", "runners", "tasks", "training", "envs")
                for path in (ROOT / part).rglob("*.py")}  # fmt: skip
    assert {str(path) for path in modules} <= set(names)


@pytest.mark.long
def test_the_source_distribution_builds_the_same_wheel(builds: list[Path], backend: Path, tmp_path: Path) -> None:
    (sdist,) = builds[0].glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        tar.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    environment = {**os.environ, "PYTHONPATH": str(backend), "SOURCE_DATE_EPOCH": EPOCH}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").iterdir()
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == digests(builds[0])[wheel.name]


def test_the_version_is_one() -> None:
    assert hermes_lab.__version__ == PROJECT["project"]["version"] == metadata.version("hermes-lab")


def test_the_changelog_has_the_version_and_what_comes_next() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert "## [Unreleased]" in text
    assert f"## [{PROJECT['project']['version']}]" in text
