"""What our SFT step costs beside bare TRL's on the same rows: model, adapter, types, labels and order are the same.

    python tests/benchmarks/bench_sft.py [STEPS]

Rows have the shape of short episodes: some 420 tokens of system prompt and tools in common, 560 to 700 tokens in all,
three replies with a loss. Both trainers take turns; a turn's first step is left out.
"""

import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from hermes_lab.models.weights import PACKAGED, resolve
from hermes_lab.training.config import TrainConfig
from hermes_lab.training.job import Data, TrainingJob
from hermes_lab.training.lock import LockedConfig, load_lock, write_lock
from hermes_lab.training.lora import load_tokenizer, require_libraries, train
from hermes_lab.training.tokens import IGNORED, Row
from hermes_lab.training.training_run import TrainingRun

ROWS, TURNS, SHARED = 4, 2, 420


def make_row(draw: random.Random, shared: list[int]) -> Row:
    """Random ids: what a step costs is a matter of lengths alone."""
    ids = [*shared, *(draw.randrange(1_000, 40_000) for _ in range(draw.randint(140, 280)))]
    labels = [IGNORED] * len(ids)
    for start in (SHARED + 20, SHARED + 80, len(ids) - 30):
        labels[start : start + 30] = ids[start : start + 30]
    return Row(ids, labels)


def ours(job: TrainingJob, model: Any) -> Any:
    """The trainer of `hermes-lab train sft`."""
    from hermes_lab.training.sft import _trainer

    return _trainer(job, model, load_tokenizer(job.locked, lambda _: None), lambda _: None)


def bare(job: TrainingJob, model: Any) -> Any:
    """TRL's own, told that the rows are ready."""
    from trl import SFTTrainer

    from hermes_lab.training.sft import _trainer_fields

    tokenizer = load_tokenizer(job.locked, lambda _: None)
    return SFTTrainer(model=model, **_trainer_fields(job, tokenizer, lambda _: None))


def measure(
    name: str, make: Callable[[TrainingJob, Any], Any], locked: LockedConfig, data: Data, root: Path
) -> list[Any]:
    """The steps of one training after the first."""
    lock, run = root / "lock.yaml", root / "run"
    (run / "episodes").mkdir(parents=True, exist_ok=True)
    config = TrainConfig(lock=str(lock), data=(str(run),), adapters=str(root / "adapters"), name=name)
    training_run = TrainingRun.begin(config, {})
    job = TrainingJob("sft", config, locked, resolve(PACKAGED), None, data, training_run, "")
    model = job.model()
    train(make(job, model), model, training_run)
    return [json.loads(line) for line in training_run.metrics.read_text().splitlines()][1:]


def main() -> None:
    """Prints the seconds of a step and their ratio."""
    steps = int(sys.argv[1]) if sys.argv[1:] else 4
    draw = random.Random(0)
    shared = [draw.randrange(1_000, 40_000) for _ in range(SHARED)]
    rows = [make_row(draw, shared) for _ in range(ROWS * steps)]
    data = Data("", len(rows), rows, {})
    taken: dict[str, list[float]] = {"ours": [], "bare TRL": []}
    losses: dict[str, list[float]] = {"ours": [], "bare TRL": []}
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder:
        root = Path(folder)
        values = yaml.safe_load(Path("configs/locks/sft-smoke.yaml").read_text())
        values |= {"total_steps": steps, "batch_size": ROWS, "warmup_steps": 0, "save_checkpoint_interval": 1_000}
        (root / "values.yaml").write_text(yaml.safe_dump(values))
        write_lock(root / "values.yaml", root / "lock.yaml")
        locked = load_lock(root / "lock.yaml")
        require_libraries(locked)
        for turn in range(TURNS):
            for name, make in (("ours", ours), ("bare TRL", bare)):
                found = measure(f"{name.split()[0]}{turn}", make, locked, data, root)
                taken[name] += [step["seconds"] for step in found]
                losses[name] = [step["loss"] for step in found]
    own, trl = statistics.median(taken["ours"]), statistics.median(taken["bare TRL"])
    print(f"| a step of {ROWS} rows of 560 to 700 tokens | seconds |\n|---|---|")
    print(f"| ours | {own:.2f} |\n| bare TRL | {trl:.2f} |")
    print(f"\nratio {own / trl:.2f}, at most 1.03; losses {losses['ours'][-1]:.4f} and {losses['bare TRL'][-1]:.4f}")
    if own > 1.03 * trl:
        raise SystemExit("our step costs more than 1.03 of TRL's")


if __name__ == "__main__":
    main()
