"""Names of series: which weights are called untuned."""

import pytest

from hermes_lab.analysis.data.series import weights_names


@pytest.mark.parametrize(
    ("weights", "names"),
    [
        ([("gpt-a", ""), ("gpt-b", "")], ["gpt-a", "gpt-b"]),
        ([("packaged", ""), ("packaged", "sft-v1-0123abcd")], ["packaged untuned", "sft-v1"]),
        ([("packaged", ""), ("other", ""), ("packaged", "a-v1-0")], ["packaged untuned", "other untuned", "a-v1"]),
        ([], []),
    ],
)
def test_a_model_is_called_untuned_only_beside_an_adapter(weights: list[tuple[str, str]], names: list[str]) -> None:
    assert weights_names(weights) == names
