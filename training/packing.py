"""Packing: rows one after another in one sequence, after their common prefix, and none attends to another.

    tokens      p p p  a a a a  b b
    positions   0 1 2  3 4 5 6  3 4
    row         0 0 0  1 1 1 1  2 2      attends to earlier tokens of its own row and of row 0

The mask is dense, so attention costs the square of the packed length: `micro_tokens` of the lock bounds it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def packed_hidden(model: Any, input_ids_BT: "Tensor", rows: Sequence[int], ends: Sequence[int], split: int) -> "Tensor":
    """The last hidden states (N, H) of the rows' tokens from `split` up to the one before the last, row after row.

    `ends` are the lengths of all rows; those in `rows` share the tokens before `split`.
    """
    import torch

    device = input_ids_BT.device
    parts = [input_ids_BT[rows[0], :split], *(input_ids_BT[row, split : ends[row] - 1] for row in rows)]
    positions = [torch.arange(split, device=device)]
    positions += [torch.arange(split, ends[row] - 1, device=device) for row in rows]
    row_T = torch.repeat_interleave(
        torch.arange(len(parts), device=device), torch.tensor([len(part_T) for part_T in parts], device=device)
    )
    output = model.base_model(
        input_ids=torch.cat(parts)[None],
        position_ids=torch.cat(positions)[None],
        # One row in one sequence is causal as it is, for which there are faster kernels.
        attention_mask=attention_mask(row_T, model.dtype) if len(rows) > 1 else None,
        use_cache=False,
    )
    hidden: Tensor = output.last_hidden_state[0, split:]
    return hidden


def packed_labels(labels_BT: "Tensor", rows: Sequence[int], ends: Sequence[int], split: int) -> "Tensor":
    """The token after each position of `packed_hidden`, or `IGNORED`."""
    import torch

    return torch.cat([labels_BT[row, split + 1 : ends[row]] for row in rows])


def attention_mask(row_T: "Tensor", dtype: Any) -> "Tensor":
    """What is added to attention scores, (1, 1, T, T): 0 where a token may attend, else minus infinity.

    In the dtype of computation: a mask of booleans would be converted, and kept, in each layer.
    """
    import torch

    same_TT = (row_T[:, None] == row_T[None]) | (row_T[None] == 0)
    allowed_TT = same_TT & torch.ones_like(same_TT).tril()
    mask_TT = torch.zeros(same_TT.shape, dtype=dtype, device=row_T.device)
    return mask_TT.masked_fill(~allowed_TT, torch.finfo(dtype).min)[None, None]
