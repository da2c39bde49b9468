import json
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_lab.config.schema import SuiteConfig
from hermes_lab.errors import ConfigError
from hermes_lab.tasks import list_suites, load_suite
from hermes_lab.tasks.registry import domains, wrap_suite_errors
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import WorldSpec


def test_built_in_suites_are_found_by_name() -> None:
    assert "ledger" in list_suites()
    assert load_suite(SuiteConfig(name="ledger")).name == "ledger"


def test_a_domain_is_a_suite_of_all_its_families() -> None:
    for domain, families in domains().items():
        suite = load_suite(SuiteConfig(name=domain))
        assert isinstance(suite, WorldSuite)
        assert tuple(family.name for family in suite.families) == families
        assert suite.spec == WorldSpec(ruled=2 * len(families), plain=len(families))
        sites = suite.sites(split="train", world=0)
        assert {site.family.name for site in sites if site.ruled} == set(families)


def test_a_domain_of_chosen_families_has_their_worlds_alone() -> None:
    config = SuiteConfig(name="data_analysis", options={"families": ["joins", "ledger"], "plain": 1})
    suite = load_suite(config)
    assert isinstance(suite, WorldSuite)
    assert [family.name for family in suite.families] == ["joins", "ledger"]
    assert suite.spec == WorldSpec(ruled=4, plain=1)
    with pytest.raises(ConfigError, match=r"data_analysis has no family 'leger'; did you mean ledger\?; there are"):
        load_suite(SuiteConfig(name="data_analysis", options={"families": ["leger"]}))


def test_listing_imports_no_family() -> None:
    code = "import sys, tasks; tasks.list_suites(); print([m for m in sys.modules if m.startswith('tasks.data_')])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_a_path_gives_a_jsonl_suite(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"prompt": "Do it."}))
    assert load_suite(SuiteConfig(path=str(path))).name == "mine"


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"suite\.name: no suite 'ledgr'; did you mean ledger\?; there are: "):
        load_suite(SuiteConfig(name="ledgr"))


def test_no_suite_at_all_says_how_to_give_one() -> None:
    with pytest.raises(ConfigError, match=r"set suite\.name, or suite\.path"):
        load_suite(SuiteConfig())


def test_an_installed_entry_point_is_a_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "foreign-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hermes_lab.suites]\nforeign = foreign_suite:load\n")
    code = (
        "from hermes_lab.tasks.data_analysis.ledger import FAMILY\n"
        "from hermes_lab.tasks.suite import WorldSuite\n"
        "from hermes_lab.tasks.worlds import WorldSpec\n"
        "def load(**world):\n"
        "    return WorldSuite('foreign', (FAMILY,), WorldSpec(**world))\n"
    )
    (tmp_path / "foreign_suite.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    assert "foreign" in list_suites()
    assert load_suite(SuiteConfig(name="foreign")).splits == ("train", "validation", "heldout")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def load():\n    return {}['fil']\n", r"load\(\): KeyError: 'fil' \(/.*/mistaken\.py:2\)"),
        ("def load(:\n", r"SyntaxError: [^(]+ \(/.*/mistaken\.py:1\)"),
        ("import nothing_there\n", r"ModuleNotFoundError: No module named 'nothing_there' \(/.*/mistaken\.py:1\)"),
        ("loads = 3\n", r"AttributeError: .*'load'.* \(mistaken:load\)"),
        (
            "class S:\n    name, splits = 's', ('train',)\n"
            "    def verify(self, *of):\n        pass\n\n"
            "    def load(self, **of):\n        return self.scene()\n    def scene(self):\n        return 1 / 0\n"
            "def load():\n    return S()\n",
            r"load\(\): ZeroDivisionError: division by zero \(/.*/mistaken\.py:9\)",
        ),
    ],
)
def test_a_mistake_in_a_suite_of_ones_own_is_one_line_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    info = tmp_path / "mistaken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mistaken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hermes_lab.suites]\nmistaken = mistaken:load\n")
    (tmp_path / "mistaken.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mistaken", raising=False)
    with pytest.raises(ConfigError, match=rf"^suite\.name: mistaken: {message}$"), wrap_suite_errors("mistaken"):
        load_suite(SuiteConfig(name="mistaken")).load()  # type: ignore[call-arg]
    monkeypatch.delitem(sys.modules, "mistaken", raising=False)


def test_a_mistake_of_the_labs_own_keeps_its_traceback() -> None:
    with pytest.raises(KeyError), wrap_suite_errors("ledger"):
        raise KeyError("ours")


def test_an_unknown_option_is_named_with_the_nearest_and_all() -> None:
    with pytest.raises(ConfigError, match=r"unexpected option 'rulled'; did you mean ruled\?; there are: ruled, plain"):
        load_suite(SuiteConfig(name="ledger", options={"rulled": 3}))


def test_importing_tasks_loads_nothing_heavy() -> None:
    heavy = "('torch', 'numpy', 'transformers')"
    code = f"import sys, tasks.learner, tasks.check, tasks.gallery; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
