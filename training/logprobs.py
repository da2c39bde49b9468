"""Log-probabilities of sampled tokens under the policy, without computing logits at every position."""

from typing import TYPE_CHECKING, Any, NamedTuple

from hermes_lab.training.loss import last_hidden, shared_prefix
from hermes_lab.training.tokens import IGNORED

if TYPE_CHECKING:
    from torch import Tensor


class Scored(NamedTuple):
    """Log-probabilities and entropies per completion token, in nats; 0 for tokens that were not requested. Entropies
    have no gradient."""

    logprobs_BC: "Tensor"
    entropies_BC: "Tensor"


def score(
    model: Any, input_ids_BT: "Tensor", attention_BT: "Tensor", wanted_BC: "Tensor", temperature: float
) -> Scored:
    """Scores the wanted tokens of completions padded as in TRL: prompts on the left, completions on the right.

    Removes padding, runs the shared prefix once, and applies the head only to wanted tokens. Log-probabilities are
    after temperature scaling, like the sampler's.
    """
    import torch

    ids_BT, labels_BT = _unpadded(input_ids_BT, attention_BT, wanted_BC)
    split = shared_prefix(ids_BT, labels_BT)
    hidden_BTH = last_hidden(model, ids_BT, split)[:, :-1]
    next_BT = labels_BT[:, split + 1 :]
    scored_BT = next_BT != IGNORED
    logits_NV = model.get_output_embeddings()(hidden_BTH[scored_BT]).float() / temperature
    log_softmax_NV = torch.log_softmax(logits_NV, dim=-1)
    logprobs_N = log_softmax_NV.gather(1, next_BT[scored_BT].unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        entropies_N = -(log_softmax_NV.exp() * log_softmax_NV).sum(1)
    # Both shapes have the wanted tokens in the same order.
    empty_BC = torch.zeros(wanted_BC.shape, device=wanted_BC.device)
    return Scored(
        empty_BC.masked_scatter(wanted_BC, logprobs_N),
        empty_BC.masked_scatter(wanted_BC, entropies_N),
    )


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
