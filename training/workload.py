"""What the steps of a training run through the model: how many tokens at once, and how much work that is."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hermes_lab.training.architecture import Architecture
from hermes_lab.training.layout import Layout, micro_batches
from hermes_lab.training.lock import LockedConfig
from hermes_lab.training.tokens import IGNORED, Row


class Micro(NamedTuple):
    """What runs at once: `rows` of `tokens` each, padding included, after `prefix` tokens whose keys are kept.

    A packed micro-batch is one row, its prefix included; `masked` says that its attention needs a mask. Logits are
    computed for `scored` tokens.
    """

    rows: int
    tokens: int
    scored: int
    prefix: int = 0
    masked: bool = False

    @property
    def queries(self) -> int:
        """Tokens that run."""
        return self.rows * self.tokens

    @property
    def keys(self) -> int:
        """Tokens that are attended to."""
        return self.rows * (self.prefix + self.tokens)


class StepWork(NamedTuple):
    """One optimiser step: the tokens of the prefix that runs once for it, and its micro-batches.

    `forwards` counts forward passes without gradient besides the trained one. `tokens` are those of the rows, without
    padding.
    """

    prefix: int
    micros: Sequence[Micro]
    tokens: int
    forwards: int = 0

    def ran(self) -> int:
        """Tokens that run, padding included and a shared prefix once."""
        return self.prefix + sum(micro.queries for micro in self.micros)


class Flops(NamedTuple):
    """Floating-point operations, in the layers and in the head."""

    layers: float
    head: float


def sft_steps(rows: Sequence[Row], batch_size: int, layout: Layout) -> Iterator[StepWork]:
    """The steps on ordered rows, laid out as `hermes_lab.training.loss` does."""
    for at in range(0, len(rows), batch_size):
        batch = rows[at : at + batch_size]
        ends = [max(n for n, label in enumerate(row.labels) if label != IGNORED) + 1 for row in batch]
        split = _shared_prefix(batch) if layout.shared else 0
        yield StepWork(
            prefix=0 if layout.packed else split,
            micros=[_micro(batch, ends, split, micro.rows, layout) for micro in micro_batches(ends, split, layout)],
            tokens=sum(len(row.input_ids) for row in batch),
        )


def pair_steps(pairs: Sequence[tuple[Row, Row]], batch_size: int, *, gpu: bool) -> Iterator[StepWork]:
    """The steps of preference training on ordered pairs: one pair at a time, by the policy and by its reference.

    TRL's head scores the tokens with a loss on a GPU (`gpu`), and every token on a CPU.
    """
    for at in range(0, len(pairs), batch_size):
        batch = pairs[at : at + batch_size]
        longest = [max(len(row.input_ids) for row in pair) for pair in batch]
        scored = [sum(map(_labelled, pair)) if gpu else 2 * (end - 1) for pair, end in zip(batch, longest, strict=True)]
        micros = [Micro(2, *sizes, masked=True) for sizes in zip(longest, scored, strict=True)]
        yield StepWork(0, micros, sum(len(row.input_ids) for pair in batch for row in pair), forwards=1)


def grpo_step(locked: LockedConfig, size: int, sequences: int, layout: Layout) -> StepWork:
    """The largest step of a GRPO training: `sequences` of the longest rollouts, `size` at once, that share nothing.

    Every token counts as sampled, and the check of the sampler as made in every step, so this is an upper bound.
    """
    length = locked.max_token_length
    if layout.packed:
        micro = Micro(1, size * length, size * length, masked=size > 1)
    else:
        micro = Micro(size, length, size * length)
    return StepWork(0, [micro] * (sequences // size), sequences * length, forwards=1)


def layer_flops(architecture: Architecture, locked: LockedConfig, micro: Micro, *, gradient: bool = True) -> float:
    """Operations of a micro-batch in one decoder layer.

    A frozen weight costs one product forward and one backward, a LoRA weight and the attention two backward; gradient
    checkpointing repeats the forward pass.
    """
    base = 2 * micro.queries * architecture.linear_parameters()
    lora = 2 * micro.queries * architecture.lora_parameters(locked.lora_rank, locked.lora_target) / architecture.layers
    pairs = micro.queries * (micro.prefix + micro.tokens)
    attention = 4 * architecture.attention * (pairs if micro.masked else pairs / 2)
    again = locked.hardware is not None and locked.hardware.gradient_checkpointing
    forward = base + lora + attention
    return forward * (1 + again) + base + 2 * lora + 2.5 * attention if gradient else forward


def step_flops(architecture: Architecture, locked: LockedConfig, step: StepWork) -> Flops:
    """Operations of a step."""
    parts = [*step.micros, *([Micro(1, step.prefix, 0)] if step.prefix else [])]
    layers = sum(layer_flops(architecture, locked, micro) for micro in parts)
    layers += step.forwards * sum(layer_flops(architecture, locked, micro, gradient=False) for micro in parts)
    scored = sum(micro.scored for micro in step.micros)
    again = 2 if locked.preference or locked.grpo else 0  # logits of the backward pass are computed again
    head = (4 + again + 2 * step.forwards) * scored * architecture.hidden * architecture.vocabulary
    return Flops(architecture.layers * layers, head)


def total_flops(architecture: Architecture, locked: LockedConfig, steps: Iterable[StepWork]) -> Flops:
    """Operations of all steps."""
    each = [step_flops(architecture, locked, step) for step in steps]
    return Flops(sum(flops.layers for flops in each), sum(flops.head for flops in each))


def _micro(batch: Sequence[Row], ends: Sequence[int], split: int, rows: Sequence[int], layout: Layout) -> Micro:
    scored = sum(_labelled(batch[row]) for row in rows)
    if layout.packed:
        return Micro(1, split + sum(ends[row] - 1 - split for row in rows), scored, masked=len(rows) > 1)
    longest = max(ends[row] for row in rows) - 1 - split
    return Micro(len(rows), longest, scored, prefix=split, masked=split > 0)


def _labelled(row: Row) -> int:
    return sum(label != IGNORED for label in row.labels[1:])


def _shared_prefix(batch: Sequence[Row]) -> int:
    """`hermes_lab.training.loss.shared_prefix`, without tensors."""
    first = min(next(n for n, label in enumerate(row.labels[1:]) if label != IGNORED) for row in batch)
    columns = zip(*(row.input_ids[:first] for row in batch), strict=False)
    return next((n for n, column in enumerate(columns) if len(set(column)) > 1), min(first, *map(_length, batch)))


def _length(row: Row) -> int:
    return len(row.input_ids)
