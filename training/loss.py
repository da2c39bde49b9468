"""The exact SFT loss, at lower cost than TRL's.

TRL computes logits at every position and runs all rows of a batch in full. Here the head runs only on positions with a
loss, and the shared prefix (system prompt and tools: about half of a short episode) runs once, with a shared key-value
cache. Rows run in micro-batches to bound memory; even so, the prefix runs forward and backward only once.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from hermes_lab.training.tokens import IGNORED

if TYPE_CHECKING:
    from torch import Tensor

MICRO_TOKENS = 2048
"""Maximum tokens per micro-batch, without the shared prefix. A single longer row runs alone."""


def add_gradients(
    model: Any,
    input_ids_BT: "Tensor",
    labels_BT: "Tensor",
    autocast: Callable[[], AbstractContextManager[Any]],
    max_tokens: int = MICRO_TOKENS,
) -> "Tensor":
    """Accumulates the gradients of a right-padded batch's loss, and returns the loss.

    The loss is the mean cross-entropy (nats) over all labelled tokens, regardless of micro-batching. `model` is a
    transformers causal LM with LoRA layers. With right padding no real token attends to padding, so no attention mask
    is needed.
    """
    import torch
    from torch.nn.functional import cross_entropy

    split = shared_prefix(input_ids_BT, labels_BT)
    with autocast():
        prefix = _Prefix(model, input_ids_BT[:1, :split]) if split else None
    trained = int((labels_BT[:, 1:] != IGNORED).sum())
    total = torch.zeros((), device=labels_BT.device)
    for rows, end in _micro_batches(labels_BT, split, max_tokens):
        with autocast():
            hidden_BTH = _hidden(model, input_ids_BT[rows, split : end - 1], prefix)
            next_BT = labels_BT[rows, split + 1 : end]
            scored_BT = next_BT != IGNORED
            logits_NV = model.get_output_embeddings()(hidden_BTH[scored_BT])
            loss = cross_entropy(logits_NV.float(), next_BT[scored_BT], reduction="sum") / trained
        loss.backward()
        total += loss.detach()
    if prefix:
        prefix.backward()
    return total


def shared_prefix(input_ids_BT: "Tensor", labels_BT: "Tensor") -> int:
    """The length of the rows' common prefix, ending before the position that predicts the first label."""
    differs_T = (input_ids_BT != input_ids_BT[0]).any(0)
    labelled_T = (labels_BT[:, 1:] != IGNORED).any(0)
    first_differing = int(differs_T.int().argmax()) if differs_T.any() else len(differs_T)
    return min(first_differing, int(labelled_T.int().argmax()))


def _micro_batches(labels_BT: "Tensor", split: int, max_tokens: int) -> Iterator[tuple[list[int], int]]:
    """Micro-batches: row indices and the end of the longest row, counted up to its last label."""
    ends_B = [int(labelled_T.nonzero().max()) + 1 for labelled_T in labels_BT != IGNORED]
    rows: list[int] = []
    for row in sorted(range(len(ends_B)), key=ends_B.__getitem__):
        if rows and (len(rows) + 1) * (ends_B[row] - split) > max_tokens:
            yield rows, ends_B[rows[-1]]
            rows = []
        rows.append(row)
    yield rows, ends_B[rows[-1]]


class _Prefix:
    """The key-value cache of the rows' common prefix.

    Gradients accumulate on detached copies, so that each micro-batch can free its memory. `backward` then runs once
    through the prefix.
    """

    def __init__(self, model: Any, input_ids_1T: "Tensor") -> None:
        from transformers import DynamicCache

        self._cache = DynamicCache(config=model.config)
        model.base_model(input_ids=input_ids_1T, past_key_values=self._cache, use_cache=True)
        self._made = [tensor for layer in self._cache.layers for tensor in (layer.keys, layer.values)]
        # float32, since gradients of several micro-batches accumulate here.
        self._copies = [tensor.detach().float().requires_grad_() for tensor in self._made]

    def cache(self, rows: int) -> Any:
        """A separate cache for this many rows."""
        cache = copy.copy(self._cache)
        cache.layers = [copy.copy(layer) for layer in self._cache.layers]
        for layer, keys, values in zip(cache.layers, self._copies[::2], self._copies[1::2], strict=True):
            layer.keys, layer.values = (
                tensor.to(made.dtype).expand(rows, -1, -1, -1)
                for tensor, made in ((keys, layer.keys), (values, layer.values))
            )
        return cache

    def backward(self) -> None:
        """Backpropagates the accumulated gradients through the prefix."""
        import torch

        gradients: Sequence[Tensor] = [
            torch.zeros_like(made) if copied.grad is None else copied.grad.to(made.dtype)
            for made, copied in zip(self._made, self._copies, strict=True)
        ]
        torch.autograd.backward(self._made, gradients)


def _hidden(model: Any, input_ids_BT: "Tensor", prefix: _Prefix | None) -> "Tensor":
    """The last hidden states of the tokens after the prefix."""
    cache = prefix.cache(len(input_ids_BT)) if prefix else None
    output = model.base_model(input_ids=input_ids_BT, past_key_values=cache, use_cache=prefix is not None)
    hidden: Tensor = output.last_hidden_state
    return hidden


def last_hidden(model: Any, input_ids_BT: "Tensor", split: int) -> "Tensor":
    """The last hidden states of the tokens from `split` on, given that all rows share the tokens before it.

    Gradients also flow through the prefix, for trainers that call backward themselves.
    """
    from transformers import DynamicCache

    cache = None
    if split:
        cache = DynamicCache(config=model.config)
        model.base_model(input_ids=input_ids_BT[:1, :split], past_key_values=cache, use_cache=True)
        cache.batch_repeat_interleave(len(input_ids_BT))
    output = model.base_model(input_ids=input_ids_BT[:, split:], past_key_values=cache, use_cache=split > 0)
    hidden: Tensor = output.last_hidden_state
    return hidden
