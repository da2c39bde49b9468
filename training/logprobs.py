"""Log-probabilities of sampled tokens under the policy, without computing logits at every position."""

from typing import TYPE_CHECKING, Any, NamedTuple

from hermes_lab.training.layout import HEAD_TOKENS, Layout
from hermes_lab.training.loss import PADDED, last_hidden, shared_prefix
from hermes_lab.training.packing import packed_hidden, packed_labels
from hermes_lab.training.tokens import IGNORED

if TYPE_CHECKING:
    from torch import Tensor


class Scored(NamedTuple):
    """Log-probabilities and entropies per completion token, in nats; 0 for tokens that were not requested. Entropies
    have no gradient."""

    logprobs_BC: "Tensor"
    entropies_BC: "Tensor"


def score(
    model: Any,
    input_ids_BT: "Tensor",
    attention_BT: "Tensor",
    wanted_BC: "Tensor",
    temperature: float,
    layout: Layout = PADDED,
) -> Scored:
    """Scores the wanted tokens of completions padded as in TRL: prompts on the left, completions on the right.

    Removes padding, runs the shared prefix once, and applies the head only to wanted tokens, a few at a time.
    Log-probabilities are after temperature scaling, like the sampler's. All rows run at once, whatever the layout's
    `max_tokens`.
    """
    import torch
    from torch.utils.checkpoint import checkpoint

    ids_BT, labels_BT = _unpadded(input_ids_BT, attention_BT, wanted_BC)
    split = shared_prefix(ids_BT, labels_BT) if layout.shared else 0
    if layout.packed:
        rows, ends = range(len(ids_BT)), attention_BT.sum(1).tolist()
        hidden_NH = packed_hidden(model, ids_BT, rows, ends, split)
        next_N = packed_labels(labels_BT, rows, ends, split)
    else:
        hidden_NH = last_hidden(model, ids_BT, split)[:, :-1].flatten(0, 1)
        next_N = labels_BT[:, split + 1 :].flatten()
    scored_N = next_N != IGNORED
    parts = zip(hidden_NH[scored_N].split(HEAD_TOKENS), next_N[scored_N].split(HEAD_TOKENS), strict=True)
    head = model.get_output_embeddings()
    # Logits of the backward pass are computed again, so that those of few tokens exist at once.
    scored = [checkpoint(_score_part, head, *part, temperature, use_reentrant=False) for part in parts]
    logprobs_N = torch.cat([logprobs for logprobs, _ in scored])
    entropies_N = torch.cat([entropies for _, entropies in scored])
    # Both shapes have the wanted tokens in the same order.
    empty_BC = torch.zeros(wanted_BC.shape, device=wanted_BC.device)
    return Scored(
        empty_BC.masked_scatter(wanted_BC, logprobs_N),
        empty_BC.masked_scatter(wanted_BC, entropies_N),
    )


def _score_part(head: Any, hidden_NH: "Tensor", next_N: "Tensor", temperature: float) -> tuple["Tensor", "Tensor"]:
    import torch

    log_softmax_NV = torch.log_softmax(head(hidden_NH).float() / temperature, dim=-1)
    with torch.no_grad():
        entropies_N = -(log_softmax_NV.exp() * log_softmax_NV).sum(1)
    return log_softmax_NV.gather(1, next_N.unsqueeze(1)).squeeze(1), entropies_N


def _unpadded(input_ids_BT: "Tensor", attention_BT: "Tensor", wanted_BC: "Tensor") -> tuple["Tensor", "Tensor"]:
    """The rows without left padding, with the wanted tokens as labels."""
    import torch

    prompt = input_ids_BT.shape[1] - wanted_BC.shape[1]
    rows, labels = [], []
    for ids_T, attention_T, wanted_C in zip(input_ids_BT, attention_BT, wanted_BC, strict=True):
        real_T = attention_T.bool()
        wanted_T = torch.cat([torch.zeros(prompt, dtype=torch.bool, device=wanted_C.device), wanted_C])
        rows.append(ids_T[real_T])
        labels.append(torch.where(wanted_T, ids_T, IGNORED)[real_T])
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(rows, batch_first=True), pad(labels, batch_first=True, padding_value=IGNORED)
