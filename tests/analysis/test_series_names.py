"""Names of series: which weights are called untuned, and what is cut off the name of an adapter."""

import pytest
from synthetic_episodes import WriteRun, make_episode

from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.analysis.data.series import series_of, weights_names
from hermes_lab.types import ModelIdentity

ONE, OTHER = ("0123abcd4567" + "e" * 52, "89ab89ab89ab" + "e" * 52)
Weights = tuple[str, str, str]


@pytest.mark.parametrize(
    ("weights", "names"),
    [
        ([("gpt-a", "", ""), ("gpt-b", "", "")], ["gpt-a", "gpt-b"]),
        ([("packaged", "", ""), ("packaged", "sft-v1-0123abcd4567", ONE)], ["packaged untuned", "sft-v1"]),
        (
            [("packaged", "", ""), ("other", "", ""), ("packaged", "a-v1-89ab89ab89ab", OTHER)],
            ["packaged untuned", "other untuned", "a-v1"],
        ),
        ([("qwen", "sql-lora", ONE), ("qwen", "", "")], ["sql-lora", "qwen untuned"]),
        ([("qwen", "tool-sft-v1", ONE), ("qwen", "tool-sft-v2", OTHER)], ["tool-sft-v1", "tool-sft-v2"]),
        ([("qwen", "tool-sft-v1", ""), ("qwen", "tool-sft-", "")], ["tool-sft-v1", "tool-sft-"]),
        (
            [("a", "sft-0123abcd4567", ONE), ("a", "sft-89ab89ab89ab", OTHER), ("a", "other-89ab89ab89ab", OTHER)],
            ["sft-0123abcd4567", "sft-89ab89ab89ab", "other"],
        ),
        ([("a", "sft-0123abcd4567", ONE), ("a", "sft-0123abcd4567", ONE)], ["sft", "sft"]),
        # A commit or a date of the user's that is no part of the digest.
        ([("a", "sft-202611290815", ONE), ("a", "sft-89ab89ab89ab", "")], ["sft-202611290815", "sft-89ab89ab89ab"]),
        ([], []),
    ],
)
def test_a_model_is_called_untuned_only_beside_an_adapter(weights: list[Weights], names: list[str]) -> None:
    assert weights_names(weights) == names


def series(write_run: WriteRun, *weights: Weights) -> list[str]:
    """The series of one lane of arm `on` under each set of weights."""
    lanes = [
        make_episode(True, lane=f"on-r0-w0-a{n}", model=ModelIdentity("vllm", name, adapter=adapter, adapter_digest=of))
        for n, (name, adapter, of) in enumerate(weights)
    ]
    return list(series_of(load_episodes(write_run(lanes))))


def test_series_have_the_whole_names_of_adapters_with_dashes(write_run: WriteRun) -> None:
    adapters = [("m", "", ""), ("m", "tool-sft-v1", ONE), ("m", "tool-sft-v2-89ab89ab89ab", OTHER)]
    assert series(write_run, *adapters) == ["m untuned, skills on", "tool-sft-v1, skills on", "tool-sft-v2, skills on"]


def test_one_name_for_two_sets_of_weights_is_not_one_series(write_run: WriteRun) -> None:
    """A server that loaded another adapter under the same name."""
    assert series(write_run, ("m", "sft", ONE), ("m", "sft", OTHER)) == [
        "m sft 0123abcd4567, skills on",
        "m sft 89ab89ab89ab, skills on",
    ]
