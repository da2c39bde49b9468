"""What a training will need, before it starts: parameters, tokens, steps, memory and time, and what is refused."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from hermes_lab.training.architecture import Architecture, architecture
from hermes_lab.training.device import no_gpu, training_dtype
from hermes_lab.training.layout import layout_of, micro_batch
from hermes_lab.training.lock import GrpoLock, LockedConfig
from hermes_lab.training.machine import free_gpu_memory, free_memory
from hermes_lab.training.memory import GB, PROCESS, Memory, memory
from hermes_lab.training.speed import LAYERS, Speed, assumed_speed, measure_speed
from hermes_lab.training.workload import StepWork, grpo_step, total_flops

Row = tuple[str, str]
"""A line of a plan: its name and its text."""

_TYPICAL = 3
"""Steps, and different micro-batches of each, that are run to measure the speed."""


class Place(NamedTuple):
    """Where a training runs: in words, its bytes of memory, whether it is a GPU, and whether it is in this machine.

    `shared` says that the memory is what other programs have left.
    """

    name: str
    memory: float
    gpu: bool
    here: bool
    shared: bool


class Plan(NamedTuple):
    """The figures of a training. `about` are the lines that say what is trained on.

    `speed` is None if it was not measured because there is too little memory. `alone` says that the figures are those
    of GRPO's optimiser steps without its rollouts, and an upper bound.
    """

    title: str
    architecture: Architecture
    locked: LockedConfig
    place: Place
    about: Sequence[Row]
    steps: Sequence[StepWork]
    total_steps: int
    memory: Memory
    speed: Speed | None
    alone: bool = False

    @property
    def seconds(self) -> float:
        """Seconds of all steps, in one process. Raises `ValueError` if the speed was not measured."""
        if self.speed is None:
            raise ValueError("the speed was not measured")
        planned = self.speed.seconds(total_flops(self.architecture, self.locked, self.steps))
        return planned / len(self.steps) * self.total_steps

    @property
    def refusal(self) -> str:
        """Why the training cannot run, or "". Of an upper bound only the part that every training needs is a reason."""
        if self.alone:
            shortage = self._shortage("weights, adapter and libraries alone need", self.memory.least)
        else:
            shortage = self._shortage("it needs", self.memory.total)
        return shortage or ("" if self.place.here else no_gpu(self.locked))

    def rows(self) -> list[Row]:
        """All lines."""
        sizes = self.architecture
        trained = sizes.lora_parameters(self.locked.lora_rank, self.locked.lora_target)
        return [
            ("model", f"{self.locked.base_model}: {_count(sizes.parameters())} parameters, {_count(trained)} trained"),
            *self.about,
            ("memory", self._memory()),
            ("time", self._time()),
            ("start", self._start()),
        ]

    def lines(self) -> list[str]:
        """The plan as text."""
        return [self.title, *lines(self.rows())]

    def _start(self) -> str:
        if self.refusal:
            return f"refused: {self.refusal}"
        shortage = self._shortage(
            "in the worst case (full-length rollouts, no shared prefix) it needs", self.memory.total
        )
        return f"possible, but memory may run out: {shortage}" if shortage else "possible"

    def _shortage(self, needs: str, needed: float) -> str:
        if needed <= self.place.memory:
            return ""
        free, end = (" free", "end other programs on it, or ") if self.place.shared else ("", "")
        return (
            f"{needs} {needed / GB:.1f} GB, and {self.place.name} has {self.place.memory / GB:.1f} GB{free}: "
            f"{end}{_remedy(self.locked)}"
        )

    def _memory(self) -> str:
        parts = ", ".join(f"{name} {size / GB:.2f}" for name, size in zip(Memory._fields, self.memory, strict=True))
        needed = f"{self.memory.total / GB:.1f} GB of {self.place.memory / GB:.1f} GB on {self.place.name}"
        return f"at most {needed}, without the server: {parts}" if self.alone else f"{needed}: {parts}"

    def _time(self) -> str:
        if self.speed is None:
            return "not measured: too little memory is free"
        each = f"{self.seconds / self.total_steps:.2f} s a step ({self.speed.source})"
        total = str(timedelta(seconds=round(self.seconds)))
        return f"at most {total} for the steps, without the rollouts; {each}" if self.alone else f"{total}, {each}"


def lines(rows: Sequence[Row]) -> list[str]:
    """Lines as text."""
    return [f"  {name:<9} {text}" for name, text in rows]


def data_rows(data: str, refused: Mapping[str, int], locked: LockedConfig, steps: Sequence[StepWork]) -> list[Row]:
    """The lines of a training on logged episodes: `data` in words, what is left out by reason, and the steps."""
    left_out = "; ".join(f"{count} {reason}" for reason, count in sorted(refused.items()))
    ran, tokens = (
        sum(values) / len(steps) for values in zip(*((step.ran(), step.tokens) for step in steps), strict=True)
    )
    each = f"{locked.total_steps}, each {locked.batch_size} rows, on average {tokens:,.0f} tokens"
    once = f"; {ran:,.0f} tokens run (a shared prefix once, padding included)" if ran != tokens else ""
    return [("data", data), *([("left out", left_out)] if left_out else []), ("steps", each + once)]


def make_plan(
    method: str,
    lock: str,
    locked: LockedConfig,
    steps: Sequence[StepWork],
    about: Sequence[Row],
    *,
    alone: bool = False,
) -> Plan:
    """The plan of a training whose `steps` are known, all of them or typical ones. `about` says what is trained on.

    Measures the speed of this machine, unless the lock is for a GPU and there is none here, or memory is too small.
    """
    sizes, place = architecture(locked.base_model), find_place(locked, alone=alone)
    needed = _needed(sizes, locked, steps, place)
    title = f"{method} under {lock}, on {place.name}"
    plan = Plan(title, sizes, locked, place, about, steps, locked.total_steps, needed, None, alone)
    return plan._replace(speed=_speed(plan))


def _needed(sizes: Architecture, locked: LockedConfig, steps: Sequence[StepWork], place: Place) -> Memory:
    bytes_each = 2 if training_dtype(locked) == "bfloat16" else 4
    return memory(sizes, locked, steps, "cuda" if place.gpu else "cpu", bytes_each=bytes_each)


def _speed(plan: Plan) -> Speed | None:
    """The speed, measured or assumed. Not measured on a machine that lacks the memory for that: it would be killed."""
    sizes, locked, place = plan.architecture, plan.locked, plan.place
    if not place.here:
        return assumed_speed(round(place.memory / GB), locked)
    measured = sizes._replace(layers=min(LAYERS, sizes.layers))
    adapted = locked.model_copy(update={"lora_target": "all-linear"})  # the layers that are adapted may not be these
    # GRPO's server may hold the memory now, and gives it back only before the steps.
    free = free_gpu_memory(PROCESS["cuda"]) if place.gpu else place.memory
    if plan.refusal or _needed(measured, adapted, plan.steps, place).total > free:
        return None
    return measure_speed(sizes, locked, typical(plan.steps))


def plan_grpo_steps(lock: str, locked: LockedConfig, grpo: GrpoLock, about: Sequence[Row]) -> Plan:
    """The plan of GRPO's optimiser steps: an upper bound, as if every rollout were as long as the lock allows.

    The rollouts take more time; how much is known after the first round.
    """
    sequences = grpo.group_size * grpo.groups_per_round
    step = grpo_step(locked, micro_batch(sequences, locked.batch_size), sequences, layout_of(locked))
    return make_plan("grpo", lock, locked, [step], about, alone=True)


def typical(steps: Sequence[StepWork]) -> list[StepWork]:
    """A few steps, spread over the sizes that occur, each with a few of its micro-batches; none of them twice."""
    ordered = sorted(steps, key=StepWork.ran)
    found = [ordered[len(ordered) * (2 * n + 1) // (2 * _TYPICAL)] for n in range(min(_TYPICAL, len(ordered)))]
    return [step._replace(micros=list(dict.fromkeys(step.micros))[-_TYPICAL:]) for step in found]


def find_place(locked: LockedConfig, *, alone: bool = False) -> Place:
    """The GPU of this machine, else the one that the lock was made for, else the CPU.

    `alone`: for GRPO's steps, before which a server on the same GPU gives its memory back, so all of it counts as free.
    """
    import torch

    if torch.cuda.is_available():
        found = torch.cuda.get_device_properties(0)
        free = found.total_memory if alone else free_gpu_memory(PROCESS["cuda"])
        return Place(found.name, free, gpu=True, here=True, shared=free < found.total_memory)
    if locked.hardware is not None:
        size = locked.hardware.gpu_memory
        return Place(f"a {size} GB GPU (not in this machine)", size * GB, gpu=True, here=False, shared=False)
    return Place("this CPU", free_memory(), gpu=False, here=True, shared=True)


def _remedy(locked: LockedConfig) -> str:
    hardware = locked.hardware
    if hardware is None:
        gpu = "`hermes-lab train lock --base ... --gpu ...`"
        return f"make a lock with a smaller max_token_length, or one for a GPU: {gpu}"
    ways = [
        *(["quantization nf4"] if hardware.quantization == "none" else []),
        *([] if hardware.gradient_checkpointing else ["gradient_checkpointing"]),
        "smaller micro_tokens and max_token_length",
    ]
    return f"make a lock with {', or '.join(ways)}"


def _count(number: int) -> str:
    return f"{number / 1e9:.2f} billion" if number >= 1e9 else f"{number / 1e6:.1f} million"
