"""What the browser tools need of a machine and of a sandbox."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from hermes_lab.config.schema import RunConfig
from hermes_lab.harness.own import OwnHarness
from hermes_lab.sandbox.extras import NOTHING_MORE, Extras
from hermes_lab.tools.toolbox import known_toolsets
from hermes_lab.web.browser import installed

TOOLS = ("browser_back", "browser_click", "browser_navigate", "browser_snapshot", "browser_type")


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Playwright without a browser."""
    package = tmp_path / "playwright"
    (package / "driver/package").mkdir(parents=True)
    (package / "driver/node").touch()
    (package / "driver/package/browsers.json").write_text('{"browsers": [{"name": "chromium", "revision": "7"}]}')
    spec = SimpleNamespace(origin=str(package / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if name == "playwright" else None)
    monkeypatch.setattr(installed, "_SYSTEM", ())
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "browsers"))
    monkeypatch.setattr(installed, "find_installed", installed.find_installed.__wrapped__)  # without its cache
    return package / "driver"


def test_the_toolset_has_its_tools() -> None:
    assert known_toolsets()["browser"] == TOOLS


def test_what_is_missing_is_named(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "playwright install" in installed.missing_browser()
    assert installed.browser_extras() == NOTHING_MORE
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "pip install 'hermes-lab[browser]'" in installed.missing_browser()


def test_the_chromium_that_playwright_downloaded_is_found(driver: Path, tmp_path: Path) -> None:
    chrome = tmp_path / "browsers/chromium-7/chrome-linux64/chrome"
    chrome.parent.mkdir(parents=True)
    chrome.touch()
    assert installed.missing_browser() == ""
    assert installed.browser_extras() == Extras(installed=(driver, chrome.parent), address_space=False)


def test_a_sandbox_has_the_browser_only_for_its_tools() -> None:
    def extras(toolset: str) -> Extras:
        return OwnHarness(RunConfig.model_validate({"agent": {"toolsets": [toolset]}})).extras

    assert extras("core") == NOTHING_MORE
    if not installed.missing_browser():
        assert extras("browser_click").installed
        assert not extras("browser_click").address_space


def test_extras_are_joined_without_folders_in_folders() -> None:
    one = Extras(installed=(Path("/a/b"), Path("/c")), address_space=False)
    other = Extras(installed=(Path("/a"), Path("/c")), home=True, workspace=Path("/w"))
    assert one.joined(other) == Extras((Path("/c"), Path("/a")), True, False, Path("/w"))
    assert one.joined(NOTHING_MORE) == one
