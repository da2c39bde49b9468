"""The examples of docs/experiments.md and docs/commands.md that go on with a run fit the budget that it began with."""

import json

import pytest
from code_blocks import blocks, commands
from fakes.command import lab


@pytest.mark.parametrize("page", ["experiments.md", "commands.md"])
def test_the_example_that_adds_worlds_has_a_budget_for_them(page: str) -> None:
    every = [words for block in blocks(page) if block.language == "bash" for words in commands(block.text)]
    (added,) = [words for words in every if "--resume" in words and "learning.worlds=40" in words]
    told = lab(*added[1 : added.index("--out")], "--plan", "--json")
    assert told.returncode == 0, told.stderr
    plan = json.loads(told.stdout)
    tasks = plan["budget"].get("tasks")
    assert tasks is None or plan["episodes"] <= tasks["limit"]
