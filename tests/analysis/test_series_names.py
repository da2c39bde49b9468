"""Names of series: which weights are called untuned."""

import pytest

from hermes_lab.analysis.data.series import weights_names


@pytest.mark.parametrize(
    ("weights", "names"),
    [
        ([("gpt-a", ""), ("gpt-b", "")], ["gpt-a", "gpt-b"]),
        ([("packaged", ""), ("packaged", "sft-v1-0123abcd4567")], ["packaged untuned", "sft-v1"]),
        (
            [("packaged", ""), ("other", ""), ("packaged", "a-v1-000000000000")],
            ["packaged untuned", "other untuned", "a-v1"],
        ),
        ([("qwen", "sql-lora"), ("qwen", "")], ["sql-lora", "qwen untuned"]),
        ([("qwen", "tool-sft-v1"), ("qwen", "tool-sft-v2")], ["tool-sft-v1", "tool-sft-v2"]),
        (
            [("a", "sft-0123abcd4567"), ("a", "sft-89ab89ab89ab"), ("a", "other-89ab89ab89ab")],
            ["sft-0123abcd4567", "sft-89ab89ab89ab", "other"],
        ),
        ([("a", "sft-0123abcd4567"), ("a", "sft-0123abcd4567")], ["sft", "sft"]),
        ([], []),
    ],
)
def test_a_model_is_called_untuned_only_beside_an_adapter(weights: list[tuple[str, str]], names: list[str]) -> None:
    assert weights_names(weights) == names
