"""The wheel and the source distribution of a release."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import hermes_lab

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests/docs"))

from code_blocks import blocks, commands  # noqa: E402
from fakes.openai_server import FakeOpenAIServer  # noqa: E402
from fakes.primes import primes_endpoint  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EPOCH = "1700000000"
VERSIONS = ["3.11", "3.12", "3.13"]


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
    version = hermes_lab.__version__
    assert first.keys() == {f"hermes_lab-{version}.tar.gz", f"hermes_lab-{version}-py3-none-any.whl"}


@pytest.mark.long
def test_the_wheel_has_every_module_once_and_nothing_else_at_its_top(builds: list[Path]) -> None:
    (wheel,) = builds[0].glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert len(names) == len(set(names))
    assert {name.split("/")[0] for name in names} == {
        "hermes_lab",
        f"hermes_lab-{hermes_lab.__version__}.dist-info",
    }
    modules = {path.relative_to(ROOT) for path in ROOT.glob("hermes_lab/**/*.py")}
    linked = (
        path for part in ("analysis", "envs", "runners", "tasks", "training") for path in (ROOT / part).rglob("*.py")
    )
    modules |= {Path("hermes_lab", path.relative_to(ROOT)) for path in linked}
    assert {str(path) for path in modules} <= set(names)


@pytest.mark.long
def test_the_source_distribution_builds_the_same_wheel(builds: list[Path], backend: Path, tmp_path: Path) -> None:
    (sdist,) = builds[0].glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        tar.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert not (source / "analysis").exists()  # it is hermes_lab/analysis
    environment = {**os.environ, "PYTHONPATH": str(backend), "SOURCE_DATE_EPOCH": EPOCH}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").iterdir()
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == digests(builds[0])[wheel.name]


# What else the core does without an endpoint.
MORE = [
    "show runs/one-rule --lane on",
    "skills health runs/one-rule",
    "compare runs/one-rule",
    "report runs/one-rule",
    "tools list",
    "config show -c configs/endpoint.yaml",
]
SMALLER = {'"worlds": 20': '"worlds": 2', '"rounds": 10': '"rounds": 2'}


@pytest.fixture
def endpoint() -> Iterator[FakeOpenAIServer]:
    with primes_endpoint() as server:
        yield server


def python_of(version: str) -> str:
    """An interpreter of that version: that of these tests, or another one of this machine."""
    if version == ".".join(map(str, sys.version_info[:2])):
        return sys.executable
    known = sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python"))
    found = str(known[-1]) if known else shutil.which(f"python{version}")
    if found and subprocess.run([found, "-c", "import venv"], capture_output=True).returncode == 0:
        return found
    pytest.skip(f"optional: no Python {version} here")


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_the_core_does_what_the_readme_says_in_a_fresh_environment(
    builds: list[Path], endpoint: FakeOpenAIServer, tmp_path: Path, version: str
) -> None:
    (wheel,) = builds[0].glob("*.whl")
    installed = Installed(wheel, python_of(version), tmp_path)
    ran = []
    for block in blocks("../README.md"):
        text = block.text.replace("http://127.0.0.1:8000/v1", endpoint.base_url)
        for whole, smaller in SMALLER.items():
            text = text.replace(whole, smaller)
        if block.title:
            (installed.work / block.title).write_text(text)
        elif block.language == "python":
            assert all(smaller in text for smaller in SMALLER.values())
            ran.append(installed.run("python", "-c", text))
        else:
            # What prepares a machine is checked by the test of the page.
            ran += [installed.run(*words) for words in commands(text) if words[0] == "hermes-lab"]
    assert any("1 solved" in said for said in ran)
    for command in MORE:
        installed.run("hermes-lab", *command.split())
    installed.add(f"hermes-lab[mcp] @ {wheel.as_uri()}")
    program = str(installed.programs / "hermes-lab")
    own = {"command": program, "args": ["mcp", "serve", "--runs", "runs"], "scope": "run"}
    tools = installed.run("hermes-lab", "mcp", "list", "-c", f"mcp.servers.lab={json.dumps(own)}")
    assert "6 tools of 1 server" in tools


class Installed:
    """A wheel in a fresh environment, whose programs run in an empty folder."""

    def __init__(self, wheel: Path, python: str, folder: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        self.environment = {**kept, "HERMES_HOME": str(folder / "home"), "MPLBACKEND": "agg"}
        self.programs, self.work = folder / "venv" / "bin", folder / "work"
        self.work.mkdir()
        subprocess.run([python, "-m", "venv", "--without-pip", folder / "venv"], env=self.environment, check=True)
        self.add(str(wheel))

    def add(self, requirement: str) -> None:
        """Installs it, by the pip of these tests, and not compiled: that takes as long again, and most modules are
        never imported."""
        pip = [sys.executable, "-m", "pip", "--python", self.programs / "python", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "-q", "--no-compile", requirement], env=self.environment, check=True)

    def run(self, program: str, *words: str) -> str:
        """Runs a program, which must succeed; returns what it printed."""
        command = [self.programs / program, *words]
        done = subprocess.run(command, cwd=self.work, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{program} {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.mark.long
def test_a_distribution_is_that_of_the_commit(tmp_path: Path) -> None:
    """What is changed or new and not committed is not in it."""
    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(copy)], check=True)
    (copy / "hermes_lab" / "errors.py").write_text("changed")
    (copy / "hermes_lab" / "not_committed.py").write_text("new")
    subprocess.run(["make", "-C", str(copy), "dist", f"PYTHON={sys.executable}"], check=True, capture_output=True)
    sums = dict(reversed(line.split("  ")) for line in (copy / "dist" / "SHA256SUMS").read_text().splitlines())
    assert sums == {name: each for name, each in digests(copy / "dist").items() if name != "SHA256SUMS"}
    (wheel,) = (copy / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        assert "hermes_lab/not_committed.py" not in file.namelist()
        committed = subprocess.run(
            ["git", "-C", str(ROOT), "show", "HEAD:hermes_lab/errors.py"], check=True, capture_output=True
        )
        assert file.read("hermes_lab/errors.py") == committed.stdout


def test_the_version_is_one() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "hermes_lab/__init__.py"
    assert hermes_lab.__version__ == metadata.version("hermes-lab")


def test_the_changelog_begins_with_the_version() -> None:
    titles = re.findall(r"^## \[(.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert titles[0] == hermes_lab.__version__


def test_the_versions_of_python_that_pip_accepts_are_those_that_the_pages_name() -> None:
    project = PROJECT["project"]
    accepted = SpecifierSet(project["requires-python"])
    assert [f"3.{minor}" for minor in range(20) if f"3.{minor}" in accepted] == VERSIONS
    named = [found[1] for each in project["classifiers"] if (found := re.search(r":: (3\.\d+)$", each))]
    assert named == VERSIONS
    for page in ("README.md", "docs/quickstart.md", "docs/release.md"):
        assert "Python 3.11, 3.12 or 3.13" in (ROOT / page).read_text()
