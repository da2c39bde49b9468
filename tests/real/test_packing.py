"""Packed rows on small models: nothing leaks from one row to another."""

from typing import Any

import pytest
from fakes.training import TRAINING

pytestmark = TRAINING

SPLIT, ENDS = 5, [12, 9, 16]


@pytest.fixture(params=["llama", "qwen2", "qwen3"])
def model(request: pytest.FixtureRequest) -> Any:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = AutoConfig.for_model(request.param, vocab_size=97, num_key_value_heads=2, head_dim=8, **sizes)
    return AutoModelForCausalLM.from_config(config)


def rows() -> Any:
    """Three rows of unlike length with a common prefix."""
    import torch

    ids_BT = torch.randint(1, 97, (3, 16), generator=torch.Generator().manual_seed(1))
    ids_BT[:, :SPLIT] = ids_BT[0, :SPLIT].clone()
    return ids_BT


@pytest.mark.parametrize("split", [SPLIT, 0])
def test_logits_of_packed_rows_equal_those_of_separate_rows(model: Any, split: int) -> None:
    import torch

    from hermes_lab.training.packing import packed_hidden

    ids_BT = rows()
    with torch.no_grad():
        packed_NV = model.lm_head(packed_hidden(model, ids_BT, [2, 0, 1], ENDS, split))
        alone = [model(input_ids=ids_BT[row : row + 1, : ENDS[row] - 1]).logits[0, split:] for row in (2, 0, 1)]
    torch.testing.assert_close(packed_NV, torch.cat(alone), atol=1e-5, rtol=1e-5)


def test_a_token_of_one_row_changes_nothing_in_another(model: Any) -> None:
    import torch

    from hermes_lab.training.packing import packed_hidden

    before = rows()
    after = before.clone()
    after[0, SPLIT] = 96 - after[0, SPLIT]
    with torch.no_grad():
        apart_N = (
            packed_hidden(model, before, [0, 1], ENDS, SPLIT) != packed_hidden(model, after, [0, 1], ENDS, SPLIT)
        ).any(1)
    assert apart_N[: ENDS[0] - 1 - SPLIT].all()
    assert not apart_N[ENDS[0] - 1 - SPLIT :].any()
