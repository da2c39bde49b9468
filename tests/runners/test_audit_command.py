"""`hermes-lab audit`, and docs/audit.md, which shows what it prints."""

import json
from pathlib import Path

from typer.testing import CliRunner

from hermes_lab.runners.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"


def audit(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["audit", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_page_shows_what_the_command_prints() -> None:
    """Where it does not: paste the output of `hermes-lab audit | cat` into the page."""
    shown = PAGE.read_text().split("```text\n")[1].split("```")[0]
    assert shown == audit()


def test_json_has_every_row_of_the_table() -> None:
    claims = json.loads(audit("--json"))["claims"]
    assert len(claims) == len(audit().splitlines()) - 2
    assert {claim["verdict"] for claim in claims} == {"agrees", "contradicts", "impossible", "open"}
    assert all(claim["measured"]["value"] is None for claim in claims)
