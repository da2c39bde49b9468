"""What the system prompt says about the person and how to speak."""

from datetime import UTC, datetime
from itertools import product

import pytest

from hermes_lab.agent.persona import persona, persona_in
from hermes_lab.agent.prompt import IDENTITY, system_prompt
from hermes_lab.config.home import HomeConfig

LATE = datetime(2026, 11, 26, 23, 30, tzinfo=UTC)


def config(**fields: object) -> HomeConfig:
    return HomeConfig.model_validate(fields)


ANN = config(
    user={"name": "Ann", "timezone": "Europe/Berlin", "preferences": {"language": "English", "units": "metric"}},
    personality="pirate",
    personalities={"pirate": "Arr.\n\nSpeak like a pirate.\n"},
)


def test_it_tells_name_zone_local_date_preferences_and_how_to_speak() -> None:
    assert persona(ANN, LATE) == (
        "<persona>\nYou work for Ann.\n"
        "Time zone: Europe/Berlin. This session began on Friday, 2026-11-27 (local date).\n"
        "Preferences:\n- language: English\n- units: metric\n"
        "Personality:\nArr.\n\nSpeak like a pirate.\n</persona>"
    )


def test_without_a_zone_no_date_is_told() -> None:
    assert persona(config(user={"name": "Ann"}), LATE) == "<persona>\nYou work for Ann.\n</persona>"


@pytest.mark.parametrize(("profile", "tool_format"), list(product(("full", "compact"), ("native", "hermes"))))
def test_nothing_configured_leaves_the_prompt_as_it_is(profile: str, tool_format: str) -> None:
    plain = system_prompt((), tool_format, profile=profile)  # type: ignore[arg-type]
    assert persona(config(), LATE) == ""
    assert system_prompt((), tool_format, persona="", profile=profile) == plain  # type: ignore[arg-type]
    assert persona_in(plain) == ""


@pytest.mark.parametrize("profile", ["full", "compact"])
def test_it_stands_after_the_identity_and_is_found_in_a_stored_prompt(profile: str) -> None:
    said = persona(ANN, LATE)
    prompt = system_prompt((), "native", persona=said, profile=profile, background=["<persona>\nx\n</persona>"])  # type: ignore[arg-type]
    assert persona_in(prompt) == said
    assert prompt.replace(f"{said}\n\n", "", 1) == system_prompt(
        (),
        "native",
        profile=profile,  # type: ignore[arg-type]
        background=["<persona>\nx\n</persona>"],
    )
    if profile == "full":
        assert prompt.startswith(f"{IDENTITY}\n\n{said}\n\n# Environment\n")


def test_a_block_elsewhere_in_a_prompt_is_not_taken_for_it() -> None:
    assert persona_in(system_prompt((), "native", background=["<persona>\nx\n</persona>"])) == ""
