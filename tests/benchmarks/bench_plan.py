"""The plan's memory and time beside those of real trainings of the packaged model, at several sizes.

    python tests/benchmarks/bench_plan.py [STEPS]
    python tests/benchmarks/bench_plan.py STEPS SIZE [--own-time]

Each training runs in a process of its own, whose peak memory counts: of the process on a CPU, of the device on a GPU.
Its first step is left out of the time. The plan is made right after it, while the machine is as busy. Rows share a
part, as episodes do. The second form does one size; with `--own-time` seconds are those of the process, which other
programs change less.
"""

import json
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import yaml

from hermes_lab.models.cards import Method
from hermes_lab.models.weights import PACKAGED, resolve
from hermes_lab.training.config import TrainConfig
from hermes_lab.training.job import Data, TrainingJob
from hermes_lab.training.layout import layout_of
from hermes_lab.training.lock import LockedConfig, load_lock, write_lock
from hermes_lab.training.lora import load_tokenizer, require_libraries, train
from hermes_lab.training.memory import GB
from hermes_lab.training.preference_data import PairOfRows
from hermes_lab.training.tokens import IGNORED, Row
from hermes_lab.training.training_run import TrainingRun

MEMORY, TIME = 0.15, 0.30


class Size(NamedTuple):
    """Rows or pairs of a step, their longest length, and the length that they have in common."""

    rows: int
    length: int
    shared: int
    method: Method = "sft"

    @property
    def title(self) -> str:
        """As in the table."""
        return f"{self.rows} {'pairs ' if self.method == 'preference' else ''}x {self.length}"


SIZES = {
    "small": Size(2, 350, 150),
    "middle": Size(4, 700, 420),
    "large": Size(8, 1200, 500),
    # Not looked at while the constants of the plan were chosen.
    "other small": Size(3, 500, 100),
    "other middle": Size(6, 800, 300),
    "other large": Size(4, 1500, 200),
    "small pairs": Size(1, 350, 150, "preference"),
    "pairs": Size(2, 500, 200, "preference"),
}


def rows_of(size: Size, steps: int) -> list[Row]:
    """Random ids, for what a step costs is a matter of lengths alone; a fifth of each row's own tokens have a loss."""
    draw = random.Random(0)
    shared = [draw.randrange(1_000, 40_000) for _ in range(size.shared)]
    rows = []
    for _ in range(size.rows * steps * (2 if size.method == "preference" else 1)):
        own = draw.randint((size.length - size.shared) // 2, size.length - size.shared)
        ids = [*shared, *(draw.randrange(1_000, 40_000) for _ in range(own))]
        labels = [IGNORED] * len(ids)
        for start in (size.shared + own // 3, len(ids) - own // 10):
            labels[start : start + own // 10] = ids[start : start + own // 10]
        rows.append(Row(ids, labels))
    return rows


def pairs_of(rows: list[Row]) -> list[PairOfRows]:
    """Two rows each."""
    return [PairOfRows(*pair) for pair in zip(rows[::2], rows[1::2], strict=True)]


def lock_of(size: Size, steps: int, root: Path) -> Path:
    """A lock of the packaged model without `hardware`."""
    values = yaml.safe_load(Path(f"configs/locks/{size.method}-smoke.yaml").read_text())
    values |= {"total_steps": steps, "batch_size": size.rows, "warmup_steps": 0, "save_checkpoint_interval": 1_000}
    (root / "values.yaml").write_text(yaml.safe_dump(values))
    write_lock(root / "values.yaml", root / "lock.yaml")
    return root / "lock.yaml"


def plan(locked: LockedConfig, rows: list[Row]) -> dict[str, float]:
    """What the plan says."""
    from hermes_lab.training import preference, sft
    from hermes_lab.training.plan import find_place, make_plan
    from hermes_lab.training.workload import pair_steps, sft_steps

    if locked.preference:
        steps = list(
            pair_steps(preference._in_order(pairs_of(rows), locked), locked.batch_size, gpu=find_place(locked).gpu)
        )
    else:
        steps = list(sft_steps(sft._in_order(rows, locked), locked.batch_size, layout_of(locked)))
    made = make_plan("preference" if locked.preference else "sft", "", locked, steps, [])
    print(*made.lines(), made.memory, sep="\n", file=sys.stderr)
    return {"memory": made.memory.total / GB, "seconds": made.seconds / locked.total_steps}


def measure(locked: LockedConfig, rows: list[Row], root: Path) -> dict[str, float]:
    """What a training takes, in this process."""
    import torch

    from hermes_lab.training import preference, sft

    (root / "run" / "episodes").mkdir(parents=True)
    config = TrainConfig(lock="", data=(str(root / "run"),), adapters=str(root / "adapters"))
    training_run = TrainingRun.begin(config, {})
    data = Data("", len(rows), rows, {})
    method: Method = "preference" if locked.preference else "sft"
    job = TrainingJob(method, config, locked, resolve(PACKAGED), None, data, training_run, "")
    model, silent = job.model(), lambda _: None
    tokenizer = load_tokenizer(locked, silent)
    if locked.preference:
        trainer = preference._trainer(job, locked.preference, pairs_of(rows), model, tokenizer, silent)
    else:
        trainer = sft._trainer(job, model, tokenizer, silent)
    train(trainer, model, training_run)
    seconds = [step["seconds"] for step in training_run.rows()][1:]
    peak = torch.cuda.max_memory_reserved() if torch.cuda.is_available() else peak_of_process()
    return {"memory": peak / GB, "seconds": sum(seconds) / len(seconds)}


def peak_of_process() -> int:
    """Bytes. `ru_maxrss` would count the process that began this one, too."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


def count_own_time() -> None:
    """The clocks of plan and training count the processor's time of this process."""
    from hermes_lab.training import lora, speed

    speed.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]
    lora.time = SimpleNamespace(monotonic=time.process_time)  # type: ignore[assignment]


def one(name: str, steps: int) -> dict[str, dict[str, float]]:
    """Measures and plans one size."""
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder:
        locked = load_lock(lock_of(SIZES[name], steps, Path(folder)))
        require_libraries(locked)
        rows = rows_of(SIZES[name], steps)
        return {"measured": measure(locked, rows, Path(folder)), "planned": plan(locked, rows)}


def apart(name: str, steps: int, *options: str) -> dict[str, dict[str, float]]:
    """`one`, in a process of its own."""
    command = [sys.executable, __file__, str(steps), name, *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Prints planned and measured figures."""
    steps = int(sys.argv[1]) if sys.argv[1:] else 4
    if len(sys.argv) > 2:
        if "--own-time" in sys.argv:
            count_own_time()
        print(json.dumps(one(sys.argv[2], steps)))
        return
    print(
        "| rows x longest | GB planned | GB measured | | s a step planned | measured | |\n|---|---|---|---|---|---|---|"
    )
    wrong = []
    for name, size in SIZES.items():
        found = apart(name, steps)
        planned, measured = found["planned"], found["measured"]
        off = {field: planned[field] / measured[field] - 1 for field in planned}
        cells = [f"{p[field]:.2f}" for field in ("memory", "seconds") for p in (planned, measured)]
        print(
            f"| {size.title} | {cells[0]} | {cells[1]} | {off['memory']:+.0%} "
            f"| {cells[2]} | {cells[3]} | {off['seconds']:+.0%} |",
            flush=True,
        )
        wrong += [name for field, most in (("memory", MEMORY), ("seconds", TIME)) if abs(off[field]) > most]
    if wrong:
        raise SystemExit(f"the plan is off by more than {MEMORY:.0%} of memory or {TIME:.0%} of time: {wrong}")


if __name__ == "__main__":
    main()
