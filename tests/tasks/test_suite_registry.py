import json
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_lab.config import SuiteConfig
from hermes_lab.errors import ConfigError
from tasks import list_suites, load_suite


def test_built_in_suites_are_found_by_name() -> None:
    assert "ledger" in list_suites()
    assert load_suite(SuiteConfig(name="ledger")).name == "ledger"


def test_a_path_gives_a_jsonl_suite(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"prompt": "Do it."}))
    assert load_suite(SuiteConfig(path=str(path))).name == "mine"


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"suite\.name: no suite 'ledgr'; there are: .*ledger"):
        load_suite(SuiteConfig(name="ledgr"))


def test_no_suite_at_all_says_how_to_give_one() -> None:
    with pytest.raises(ConfigError, match=r"set suite\.name, or suite\.path"):
        load_suite(SuiteConfig())


def test_an_installed_entry_point_is_a_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "foreign-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hermes_lab.suites]\nforeign = foreign_suite:load\n")
    (tmp_path / "foreign_suite.py").write_text("from tasks.ledger.suite import load\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "foreign" in list_suites()
    assert load_suite(SuiteConfig(name="foreign")).splits == ("train", "validation", "heldout")


def test_importing_tasks_loads_nothing_heavy() -> None:
    heavy = "('torch', 'numpy', 'transformers')"
    code = f"import sys, tasks.learner, tasks.check; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
