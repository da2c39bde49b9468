"""Prints the share of each kind of accepted episode in runs of `configs/demonstrations.yaml`, a column each, and how
many episodes were not accepted.

python tests/real/demonstration_mix.py RUN...
"""

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from hermes_lab.records import read_episodes
from hermes_lab.skills.learning.observe import done
from hermes_lab.types import Episode

KINDS = (
    "a skill is read, and holds",
    "a skill is read, misleads, and is mended",
    "no skill; the standard way is right",
    "no skill; a rule is found out",
    "skills are listed, and none is read",
    "a call fails, and the next one differs",
    "review creates",
    "review patches",
    "review writes nothing",
)


def kinds(episode: Episode) -> Iterator[str]:
    """What an accepted episode shows; one of the first four, and any of the others."""
    assert episode.trajectory
    assert episode.review
    read, first = bool(episode.skills.loaded), bool(episode.success)
    yield KINDS[0 if first else 1] if read else KINDS[2 if first else 3]
    if episode.skills.listed and not read:
        yield KINDS[4]
    calls = [each for each in done(episode.trajectory.messages) if each.call.name != "skill_view"]
    if any(one.failed and one.call.arguments != other.call.arguments for one, other in pairwise(calls)):
        yield KINDS[5]
    actions = {write.action for write in episode.review.writes}
    yield KINDS[6] if "create" in actions else KINDS[7] if actions else KINDS[8]


def count(run: Path) -> tuple[Counter[str], int, int]:
    """How many accepted episodes of a run are of each kind, how many there are, and how many were never accepted: those
    mended nothing and found nothing out."""
    ended = [episode for episode in read_episodes(run) if episode.status == "ok"]
    accepted = [episode for episode in ended if episode.verdicts and episode.verdicts[-1].success]
    counts: Counter[str] = Counter()
    for episode in accepted:
        counts.update(kinds(episode))
    return counts, len(accepted), len(ended) - len(accepted)


def table(runs: list[Path]) -> str:
    """Markdown."""
    names, columns = [run.name for run in runs], [count(run) for run in runs]
    names.append("all")
    everything = sum((counts for counts, _, _ in columns), Counter[str]())
    columns.append((everything, sum(size for _, size, _ in columns), sum(refused for _, _, refused in columns)))
    rows = [
        ["share of episodes", *names],
        ["---"] * (len(columns) + 1),
        *([kind, *(f"{counts[kind] / max(size, 1):.0%}" for counts, size, _ in columns)] for kind in KINDS),
        ["episodes", *(str(size) for _, size, _ in columns)],
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + f"\n\nnot accepted: {columns[-1][2]}"


if __name__ == "__main__":
    sys.stdout.write(table([Path(run) for run in sys.argv[1:]]) + "\n")
