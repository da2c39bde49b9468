"""What `hermes-lab update --with` records: the same packages for an update from any folder, and no secrets."""

from pathlib import Path

import pytest
from fakes.command import lab

from hermes_lab.errors import ConfigError
from hermes_lab.runners.updates.packages import parse_packages
from hermes_lab.runners.updates.sources import parse_source


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the person is."""
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "x.whl").touch()
    (tmp_path / "x.whl").touch()
    (tmp_path / "suite").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", ["wheels/x.whl", "x.whl", "./suite", "suite/", "."])
@pytest.mark.parametrize("extras", ["", "[more,other]"])
def test_a_path_means_the_same_from_every_folder(folder: Path, path: str, extras: str) -> None:
    assert parse_packages([path + extras]) == (f"{folder / path}{extras}",)


@pytest.mark.parametrize("text", ["suite", "suite[more]>=1", "y.whl", "x @ https://x.org/x.whl", "x @ file:///x.whl"])
def test_anything_else_stays_as_it_is(text: str) -> None:
    """`suite` is a package of the index for pip, too."""
    assert parse_packages([text]) == (text,)


def test_empty_ones_are_left_out() -> None:
    assert parse_packages(["", " ", "suite "]) == ("suite",)


_SECRETS = [
    ("https://ann:secret@x.org/l.git", "https://x.org/l.git: remove the password"),
    ("https://secret@x.org/l.git", "https://x.org/l.git: remove the password"),
    ("https://x.org/l.git?token=secret", "https://x.org/l.git: remove the query"),
    ("https://x.org/l.git?token=secret#sha256=1", "https://x.org/l.git: remove the query"),
]


@pytest.mark.parametrize(("url", "said"), _SECRETS)
@pytest.mark.parametrize("option", ["--with", "--from"])
def test_a_secret_is_refused_and_neither_printed_nor_stored(folder: Path, option: str, url: str, said: str) -> None:
    value = f"x @ {url}" if option == "--with" else url
    done = lab("update", "--at", "at", "--from", "index", option, value, HERMES_HOME=str(folder / "home"))
    assert done.returncode == 2
    assert f"{option}: {said}" in done.stderr
    assert "secret" not in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["suite", "wheels", "x.whl"]


@pytest.mark.parametrize("text", ["--index-url=https://ann:secret@x.org", "-r list.txt"])
def test_an_option_of_pip_is_no_package(text: str) -> None:
    with pytest.raises(ConfigError, match="is an option of pip") as caught:
        parse_packages([text])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("https://x.org/hermes_lab-1-py3-none-any.whl?x=1", "download the wheel"),
        ("https://x.org/lab.tar.gz", "is an archive"),
        ("https://x.org/lab.zip?x=1#y", "is an archive"),
    ],
)
def test_the_path_of_a_url_says_what_it_is(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_source(text)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--at", "~nosuch/x", "--from", "index"), "--at: ~nosuch/x: no such user"),
        (("--at", "at", "--from", "~nosuch/x"), "--from: ~nosuch/x: no such user"),
        (("--at", "at", "--from", "index", "--with", "~nosuch/x"), "--with: ~nosuch/x: no such user"),
        (("--at", "typo/at", "--rollback"), "--rollback: {}/typo/at has no version"),
        (("--at", "typo/at"), "{}/typo/at has no version yet; say where"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_makes_no_folder(folder: Path, args: tuple[str, ...], said: str) -> None:
    done = lab("update", *args, HERMES_HOME=str(folder / "home"))
    assert done.returncode == 2
    assert said.format(folder) in done.stderr
    assert done.stderr.count("\n") == 1
    assert not {"at", "typo", "~nosuch"} & {path.name for path in folder.iterdir()}
