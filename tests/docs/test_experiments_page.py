"""The examples of docs/experiments.md and docs/commands.md with more worlds have a budget for them."""

import json

import pytest
from code_blocks import blocks, commands
from fakes.command import lab


@pytest.mark.parametrize("page", ["experiments.md", "commands.md"])
def test_examples_with_more_worlds_have_a_budget_for_them(page: str) -> None:
    every = [words for block in blocks(page) if block.language == "bash" for words in commands(block.text)]
    more = [words for words in every if "learning.worlds=40" in words]
    assert any("--resume" in words for words in more)
    for words in more:
        told = lab(*words[1 : words.index("--out")], "--plan", "--json")
        assert told.returncode == 0, told.stderr
        plan = json.loads(told.stdout)
        tasks = plan["budget"].get("tasks")
        assert tasks is None or plan["episodes"] <= tasks["limit"], words
