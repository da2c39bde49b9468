"""What the table of a run of 100,000 episodes costs, against decoding each line whole.

python tests/benchmarks/bench_load.py
"""

import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from bench_resume import episode

from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.analysis.data.rows import EpisodeRow
from hermes_lab.analysis.summaries.summary import summarize
from hermes_lab.config.schema import RunConfig
from hermes_lab.manifest import RunManifest
from hermes_lab.records import write_json
from hermes_lab.types import Episode, Message, Trajectory

EPISODES = 100_000
CURVE = ("run", "lane", "arm", "phase", "experience", "success")
"""What a fit needs."""


def lines() -> list[bytes]:
    """Episodes of 3 to 20 kB, on average 12, which differ in what they said."""
    made = []
    for number in range(200):
        base = episode(number)
        assert base.trajectory is not None
        said = tuple(
            Message("assistant", f'Step {turn}: "{number}" is looked at.\n' * 40) for turn in range(number % 9)
        )
        messages = (*base.trajectory.messages, *said)
        longer = Trajectory(messages, base.trajectory.tools, "native", "answered", base.trajectory.steps)
        made.append(msgspec.json.encode(msgspec.structs.replace(base, trajectory=longer)) + b"\n")
    return made


def write(run: Path) -> None:
    """A run folder of 100,000 episodes."""
    config = RunConfig().model_dump(mode="json")
    manifest = RunManifest(
        command="run", config=config, config_digest="", tasks_digest="", wanted=EPISODES, created_at="", versions={}
    )
    write_json(run / "run.json", manifest)
    (run / "episodes").mkdir()
    made = lines()
    with (run / "episodes" / "w0-0.jsonl").open("wb") as file:
        for number in range(EPISODES):
            place = b'"lane":"on-r%d-w0"' % (number // len(made))
            file.write(made[number % len(made)].replace(b'"lane":"main"', place, 1))


def decode(run: Path, decoder: Callable[[bytes], object]) -> None:
    """Every line whole, thrown away."""
    with (run / "episodes" / "w0-0.jsonl").open("rb", buffering=1 << 20) as file:
        for line in file:
            decoder(line)


def measure(work: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds and peak growth in MB, in a process of its own whose imports are done."""

    def child() -> None:
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        work()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        out.send((time.process_time() - started, (after - before) / 1024))

    into, out = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    seconds, grown = into.recv()
    process.join()
    return seconds, grown


def main() -> None:
    """Prints a table in Markdown."""
    with tempfile.TemporaryDirectory() as base:
        run = Path(base)
        write(run)
        load_episodes(run, columns=[])  # from here on it lies in the page cache, and pandas is imported
        every = len(EpisodeRow.__struct_fields__)
        work: dict[str, Callable[[], object]] = {
            "floor: lines alone": lambda: decode(run, len),
            "floor: msgspec, whole `Episode`s": lambda: decode(run, msgspec.json.Decoder(Episode).decode),
            "floor: `json.loads`": lambda: decode(run, json.loads),
            f"`load_episodes`, {every} columns": lambda: load_episodes(run),
            f"`load_episodes`, {len(CURVE)} columns for a curve": lambda: load_episodes(run, columns=CURVE),
            "`summarize`": lambda: summarize(run),
        }
        found = {name: measure(one) for name, one in work.items()}
        floor = found["floor: msgspec, whole `Episode`s"][0]
        size = (run / "episodes" / "w0-0.jsonl").stat().st_size / 1e9
        print(f"| {EPISODES:,} episodes, {size:.2f} GB | CPU s | over msgspec's floor | peak MB |\n|---|---|---|---|")
        for name, (seconds, grown) in found.items():
            print(f"| {name} | {seconds:.1f} | {seconds / floor:.2f} x | {grown:.0f} |")


if __name__ == "__main__":
    main()
