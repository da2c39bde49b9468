import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_lab.errors import ToolError
from hermes_lab.sandbox.workspace import WorkspaceFolder, components

SECRET = b"outside"
KEEP = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
PARTS = st.sampled_from(
    ["..", ".", "", "/", "app", "data", "in", "out", "loop", "up", "abs", "f", "secret", "~", "a\0b"]
)
PATHS = st.one_of(st.lists(PARTS, max_size=6).map("/".join), st.text(max_size=30))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with every kind of link out of it, beside a secret."""
    (tmp_path / "secret").write_bytes(SECRET)
    root = tmp_path / "data"
    (root / "in").mkdir(parents=True)
    (root / "in" / "f").write_bytes(b"inside")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "up").symlink_to("..")
    (root / "abs").symlink_to(tmp_path)
    (root / "in" / "up").symlink_to("../..")
    (root / "loop").symlink_to("loop")
    return root


@KEEP
@given(path=PATHS)
def test_no_path_reads_outside(root: Path, path: str) -> None:
    try:
        data = WorkspaceFolder(root).read(path, 100)
    except ToolError:
        return
    assert data != SECRET
    assert root.joinpath(*components(path)).read_bytes() == data


@KEEP
@given(path=PATHS)
def test_no_path_writes_outside(root: Path, path: str) -> None:
    try:
        WorkspaceFolder(root).write(path, b"new")
    except ToolError:
        pass
    else:
        assert WorkspaceFolder(root).read(path, 3) == b"new"
    assert (root.parent / "secret").read_bytes() == SECRET
    assert sorted(p.name for p in root.parent.iterdir()) == ["data", "secret"]


@given(path=PATHS)
def test_components_name_nothing_above(path: str) -> None:
    try:
        parts = components(path)
    except ToolError:
        return
    assert parts
    assert all(part not in ("", ".", "..") and "/" not in part and "\0" not in part for part in parts)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../secret", "in/../../secret", "/app/database", "/app/data/", "", "."]
)
def test_paths_out_of_the_workspace_are_refused(root: Path, path: str) -> None:
    with pytest.raises(ToolError):
        WorkspaceFolder(root).read(path, 100)


@pytest.mark.parametrize("path", ["out", "up/secret", "abs/secret", "in/up/secret", "loop"])
def test_links_are_followed_neither_to_read_nor_to_write(root: Path, path: str) -> None:
    with pytest.raises(ToolError, match="symbolic link"):
        WorkspaceFolder(root).read(path, 100)
    with pytest.raises(ToolError, match="symbolic link"):
        WorkspaceFolder(root).write(path, b"new")


def test_a_fifo_does_not_hang(root: Path) -> None:
    os.mkfifo(root / "fifo")
    with pytest.raises(ToolError, match="not a regular file"):
        WorkspaceFolder(root).read("fifo", 100)
    with pytest.raises(ToolError, match="not a regular file"):
        WorkspaceFolder(root).write("fifo", b"new")


def test_a_write_does_not_reach_through_a_hardlink(root: Path) -> None:
    os.link(root.parent / "secret", root / "hard")
    WorkspaceFolder(root).write("hard", b"new")
    assert (root.parent / "secret").read_bytes() == SECRET
    assert (root / "hard").read_bytes() == b"new"


def test_a_long_file_is_refused(root: Path) -> None:
    assert WorkspaceFolder(root).read("in/f", 6) == b"inside"
    with pytest.raises(ToolError, match="longer than 5 bytes"):
        WorkspaceFolder(root).read("in/f", 5)


def test_a_folder_is_no_file(root: Path) -> None:
    with pytest.raises(ToolError, match="a folder"):
        WorkspaceFolder(root).read("in", 100)
    with pytest.raises(ToolError, match="a folder"):
        WorkspaceFolder(root).write("in", b"new")


def test_writing_makes_folders_and_keeps_the_mode(root: Path) -> None:
    (root / "in" / "f").chmod(0o755)
    WorkspaceFolder(root).write("in/f", b"new")
    WorkspaceFolder(root).write("x/y/z", b"deep")
    assert (root / "in" / "f").stat().st_mode & 0o777 == 0o755
    assert (root / "x" / "y" / "z").stat().st_mode & 0o777 == 0o644
    assert (root / "x" / "y" / "z").read_bytes() == b"deep"
    assert [p.name for p in (root / "x" / "y").iterdir()] == ["z"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_writes_belongs_to_the_sandbox(root: Path) -> None:
    WorkspaceFolder(root, owner=65534).write("x/y", b"")
    assert {(p.stat().st_uid, p.stat().st_gid) for p in (root / "x", root / "x" / "y")} == {(65534, 65534)}
