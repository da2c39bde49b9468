"""`tests/gpu_check.py FOLDER`: what it may remove."""

from pathlib import Path

from gpu_check import remove_earlier


def test_only_an_empty_folder_or_that_of_an_earlier_check_is_removed(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    assert not remove_earlier(mine)
    assert (mine / "thesis.txt").read_text() == "years of work"
    assert not remove_earlier(mine / "thesis.txt")
    for name in ("empty", "earlier"):
        (tmp_path / name).mkdir()
    (tmp_path / "earlier" / "demonstrations.log").write_text("")
    assert remove_earlier(tmp_path / "empty")
    assert remove_earlier(tmp_path / "earlier")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine"]
