"""What a training will need, before it starts: parameters, tokens, steps, memory and time, and what is refused."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from hermes_lab.training.architecture import Architecture, architecture
from hermes_lab.training.device import training_dtype
from hermes_lab.training.layout import layout_of, micro_batch
from hermes_lab.training.lock import GrpoLock, LockedConfig
from hermes_lab.training.memory import GB, Memory, memory
from hermes_lab.training.speed import Speed, assumed_speed, measure_speed
from hermes_lab.training.workload import StepWork, grpo_step, total_flops

Row = tuple[str, str]
"""A line of a plan: its name and its text."""

_MEMINFO = Path("/proc/meminfo")
_TYPICAL = 3
"""Steps, and different micro-batches of each, that are run to measure the speed."""


class Place(NamedTuple):
    """Where a training runs: in words, its bytes of memory, and whether it is a GPU that is in this machine."""

    name: str
    memory: float
    gpu: bool
    here: bool


class Plan(NamedTuple):
    """The figures of a training. `about` are the lines that say what is trained on.

    `alone` says that the figures are those of GRPO's optimiser steps without its rollouts, and an upper bound.
    """

    title: str
    architecture: Architecture
    locked: LockedConfig
    place: Place
    about: Sequence[Row]
    steps: Sequence[StepWork]
    total_steps: int
    memory: Memory
    speed: Speed
    alone: bool = False

    @property
    def seconds(self) -> float:
        """Seconds of all steps, in one process."""
        planned = self.speed.seconds(total_flops(self.architecture, self.locked, self.steps))
        return planned / len(self.steps) * self.total_steps

    @property
    def refusal(self) -> str:
        """Why the training cannot run, or "". An upper bound above the memory does not prevent it."""
        return "" if self.alone else self._shortage("it needs")

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
        shortage = self._shortage("rollouts of the greatest length that share nothing need")
        return f"possible, but memory may run out: {shortage}" if shortage else "possible"

    def _shortage(self, needs: str) -> str:
        if self.memory.total <= self.place.memory:
            return ""
        return (
            f"{needs} {self.memory.total / GB:.1f} GB, and {self.place.name} has {self.place.memory / GB:.1f} GB: "
            f"{_remedy(self.locked)}"
        )

    def _memory(self) -> str:
        parts = ", ".join(f"{name} {size / GB:.2f}" for name, size in zip(Memory._fields, self.memory, strict=True))
        needed = f"{self.memory.total / GB:.1f} GB of {self.place.memory / GB:.1f} GB on {self.place.name}"
        return f"at most {needed}, without the server: {parts}" if self.alone else f"{needed}: {parts}"

    def _time(self) -> str:
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


def make_plan(method: str, lock: str, locked: LockedConfig, steps: Sequence[StepWork], about: Sequence[Row]) -> Plan:
    """The plan of a training whose `steps` are known, all of them or typical ones. `about` says what is trained on.

    Measures the speed of this machine, unless the lock is for a GPU and there is none here.
    """
    sizes, place = architecture(locked.base_model), find_place(locked)
    bytes_each = 2 if training_dtype(locked) == "bfloat16" else 4
    needed = memory(sizes, locked, steps, "cuda" if place.gpu else "cpu", bytes_each=bytes_each)
    if place.here:
        speed = measure_speed(sizes, locked, typical(steps))
    else:
        speed = assumed_speed(round(place.memory / GB), locked)
    title = f"{method} under {lock}, on {place.name}"
    return Plan(title, sizes, locked, place, about, steps, locked.total_steps, needed, speed)


def plan_grpo_steps(lock: str, locked: LockedConfig, grpo: GrpoLock, about: Sequence[Row]) -> Plan:
    """The plan of GRPO's optimiser steps: an upper bound, as if every rollout were as long as the lock allows.

    The rollouts take more time; how much is known after the first round.
    """
    sequences = grpo.group_size * grpo.groups_per_round
    step = grpo_step(locked, micro_batch(sequences, locked.batch_size), sequences, layout_of(locked))
    return make_plan("grpo", lock, locked, [step], about)._replace(alone=True)


def typical(steps: Sequence[StepWork]) -> list[StepWork]:
    """A few steps, spread over the sizes that occur, each with a few of its micro-batches; none of them twice."""
    ordered = sorted(steps, key=StepWork.ran)
    found = [ordered[len(ordered) * (2 * n + 1) // (2 * _TYPICAL)] for n in range(min(_TYPICAL, len(ordered)))]
    return [step._replace(micros=list(dict.fromkeys(step.micros))[-_TYPICAL:]) for step in found]


def find_place(locked: LockedConfig) -> Place:
    """The GPU of this machine, else the one that the lock was made for, else the CPU."""
    import torch

    if torch.cuda.is_available():
        found = torch.cuda.get_device_properties(0)
        return Place(found.name, found.total_memory, gpu=True, here=True)
    if locked.hardware is not None:
        size = locked.hardware.gpu_memory
        return Place(f"a GPU of {size} GB, which is not here", size * GB, gpu=True, here=False)
    return Place("this CPU", _free_memory(), gpu=False, here=True)


def _free_memory() -> float:
    """Bytes that programs can still get."""
    try:
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        return float(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return float("inf")


def _remedy(locked: LockedConfig) -> str:
    hardware = locked.hardware
    if hardware is None:
        return "make a lock with fewer max_token_length, or one for a GPU: `hermes-lab train lock --base ... --gpu ...`"
    ways = [
        *(["quantization nf4"] if hardware.quantization == "none" else []),
        *([] if hardware.gradient_checkpointing else ["gradient_checkpointing"]),
        "fewer micro_tokens and max_token_length",
    ]
    return f"make a lock with {', or '.join(ways)}"


def _count(number: int) -> str:
    return f"{number / 1e9:.2f} billion" if number >= 1e9 else f"{number / 1e6:.1f} million"
