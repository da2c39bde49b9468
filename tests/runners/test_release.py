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


# What the README does without an endpoint, with a scripted model in the endpoint's place.
TRIED = """
import hermes_lab as lab
settings = {"model": {"provider": "scripted", "name": "hermes_lab.tasks.learner:learner"},
            "skills": {"review_every": 0},
            "suite": {"name": "ledger", "options": {"ruled": 3, "plain": 1}},
            "learning": {"arms": ["off", "on"], "worlds": 2, "rounds": 2}}
run = lab.experiment(settings, out="runs/quickstart", progress=False)
episodes = lab.load(run)
fits = lab.fit(episodes)
lab.plot(episodes, fits, level=0.8)
print(lab.compare(run))
"""
TASK = '{"prompt": "Write the first prime to primes.txt.", "verify": "echo 2 | cmp - primes.txt"}'
NOOP = "-c model.provider=scripted -c model.name=hermes_lab.tasks.learner:noop"
COMMANDS = [
    "doctor",
    "tasks check runs/tasks.jsonl",
    f"run -c suite.path=runs/tasks.jsonl {NOOP} --out runs/dry",
    "summary runs/dry --json",
    "experiment -c configs/one-rule.yaml --out runs/one-rule",
    "show runs/one-rule --lane on",
    "skills health runs/one-rule",
    "compare runs/one-rule",
    "report runs/one-rule",
    "tools list",
    "config show -c configs/endpoint.yaml",
]


def python_of(version: str) -> str:
    """An interpreter of that version, which is not the one of these tests."""
    known = sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python"))
    found = str(known[-1]) if known else shutil.which(f"python{version}")
    if found and subprocess.run([found, "-c", "import ensurepip"], capture_output=True).returncode == 0:
        return found
    pytest.skip(f"optional: no Python {version} here")


@pytest.mark.long
@pytest.mark.parametrize("version", ["3.13"])
def test_the_core_does_what_the_readme_says_in_a_fresh_environment(
    builds: list[Path], tmp_path: Path, version: str
) -> None:
    (wheel,) = builds[0].glob("*.whl")
    check_core(wheel, python_of(version), tmp_path)


def check_core(wheel: Path, python: str, folder: Path) -> None:
    """Installs a wheel in a fresh environment, and runs the README's commands and Python in an empty folder."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = {**kept, "HERMES_HOME": str(folder / "home"), "MPLBACKEND": "agg"}
    subprocess.run([python, "-m", "venv", folder / "venv"], env=environment, check=True)
    program = folder / "venv" / "bin"
    pip = [program / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, wheel], env=environment, check=True)
    work = folder / "work"
    (work / "runs").mkdir(parents=True)
    (work / "runs" / "tasks.jsonl").write_text(TASK)
    for command in COMMANDS:
        words = [program / "hermes-lab", *command.split()]
        done = subprocess.run(words, cwd=work, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    done = subprocess.run([program / "python", "-c", TRIED], cwd=work, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_version_is_one() -> None:
    assert hermes_lab.__version__ == PROJECT["project"]["version"] == metadata.version("hermes-lab")


def test_the_changelog_has_the_version_and_what_comes_next() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert "## [Unreleased]" in text
    assert f"## [{PROJECT['project']['version']}]" in text
