"""The exact SFT loss, at lower cost than TRL's.

TRL computes logits at every position and runs all rows of a batch in full. Here the head runs only on positions with a
loss, and the shared prefix (system prompt and tools: about half of a short episode) runs once, with a shared key-value
cache. Rows run in micro-batches to bound memory; even so, the prefix runs forward and backward only once. Packed rows
share the prefix within each micro-batch instead, without a cache (`hermes_lab.training.packing`).
"""

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from hermes_lab.training.layout import HEAD_TOKENS, Layout, MicroBatch, micro_batches
from hermes_lab.training.packing import packed_hidden, packed_labels
from hermes_lab.training.tokens import IGNORED

if TYPE_CHECKING:
    from torch import Tensor

Autocast = Callable[[], AbstractContextManager[Any]]

PADDED = Layout()
"""The layout of a lock without `hardware`."""


def add_gradients(
    model: Any,
    input_ids_BT: "Tensor",
    labels_BT: "Tensor",
    autocast: Autocast,
    layout: Layout = PADDED,
    trained: int = 0,
) -> "Tensor":
    """Accumulates the gradients of a right-padded batch's loss, and returns the loss.

    The loss is the sum of the cross-entropy (nats) over all labelled tokens, divided by `trained`, or by their number
    if that is 0: regardless of the layout it is the token mean. `model` is a transformers causal LM with LoRA layers.
    With right padding no real token attends to padding, so no attention mask is needed.
    """
    import torch

    split = shared_prefix(input_ids_BT, labels_BT) if layout.shared else 0
    prefix = None
    if split and not layout.packed:
        with autocast():
            prefix = Prefix(model, input_ids_BT[:1, :split])
    trained = trained or count_trained(labels_BT)
    total = torch.zeros((), device=labels_BT.device)
    ends = [int(labelled_T.nonzero().max()) + 1 for labelled_T in labels_BT != IGNORED]
    for micro in micro_batches(ends, split, layout):
        with autocast():
            if layout.packed:
                hidden_NH = packed_hidden(model, input_ids_BT, micro.rows, ends, split)
                next_N = packed_labels(labels_BT, micro.rows, ends, split)
            else:
                hidden_NH, next_N = _padded(model, input_ids_BT, labels_BT, micro, split, prefix)
        total += _head_gradients(model, hidden_NH, next_N, trained, autocast)
    if prefix:
        prefix.backward()
    return total


def count_trained(labels_BT: "Tensor") -> int:
    """The number of tokens with a loss: those that are predicted, so not the first of a row."""
    return int((labels_BT[:, 1:] != IGNORED).sum())


def shared_prefix(input_ids_BT: "Tensor", labels_BT: "Tensor") -> int:
    """The length of the rows' common prefix, ending before the position that predicts the first label."""
    differs_T = (input_ids_BT != input_ids_BT[0]).any(0)
    labelled_T = (labels_BT[:, 1:] != IGNORED).any(0)
    first_differing = int(differs_T.int().argmax()) if differs_T.any() else len(differs_T)
    return min(first_differing, int(labelled_T.int().argmax()))


def _padded(
    model: Any, input_ids_BT: "Tensor", labels_BT: "Tensor", micro: MicroBatch, split: int, prefix: "Prefix | None"
) -> tuple["Tensor", "Tensor"]:
    """Hidden states and next tokens of a padded micro-batch, at all positions after the prefix."""
    hidden_BTH = hidden_states(model, input_ids_BT[micro.rows, split : micro.end - 1], prefix)
    return hidden_BTH.flatten(0, 1), labels_BT[micro.rows, split + 1 : micro.end].flatten()


def _head_gradients(model: Any, hidden_NH: "Tensor", next_N: "Tensor", trained: int, autocast: Autocast) -> "Tensor":
    """The summed cross-entropy divided by `trained`, after its backward pass; for a few tokens at a time."""
    import torch
    from torch.nn.functional import cross_entropy

    scored_N = next_N != IGNORED
    scored_NH = hidden_NH[scored_N]
    inputs_NH = scored_NH.detach().requires_grad_()
    total = torch.zeros((), device=next_N.device)
    for part_NH, part_N in zip(inputs_NH.split(HEAD_TOKENS), next_N[scored_N].split(HEAD_TOKENS), strict=True):
        with autocast():
            logits_NV = model.get_output_embeddings()(part_NH)
            loss = cross_entropy(logits_NV.float(), part_N, reduction="sum") / trained
        loss.backward()
        total += loss.detach()
    scored_NH.backward(inputs_NH.grad)
    return total


class Prefix:
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


def hidden_states(model: Any, input_ids_BT: "Tensor", prefix: Prefix | None) -> "Tensor":
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
