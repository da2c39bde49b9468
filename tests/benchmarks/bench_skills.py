"""What a library of 1,000 skills adds to a session's start, and what a write to it costs.

python tests/benchmarks/bench_skills.py
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.listing import choose
from hermes_lab.skills.library import Library, index
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import Skill, SkillEdit

SKILLS, TURNS = 1_000, 20
TASK = "Work out what fleet 12 drove in March, in kilometres."
BODY = "Convert the distances to kilometres before you add them up.\n" * 30


def skill(number: int, body: str = BODY) -> Skill:
    description = f"Totals of fleet {number}: distances in several units, added up and rounded."
    return skill_format.parse(skill_format.render(f"fleet-{number}-totals", description, body, origin="review"))


def cpu_ms(work: Callable[[], object], turns: int) -> tuple[float, float]:
    """The median and the least of what it costs this process."""
    costs = []
    for _ in range(turns):
        started = time.process_time()
        work()
        costs.append(1e3 * (time.process_time() - started))
    return statistics.median(costs), min(costs)


def main() -> None:
    """Prints a table in Markdown."""
    library = Library(map(skill, range(SKILLS)))
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder:
        root = Path(folder, "skills")
        store = SkillStore(root)
        store.change(lambda _: library, origin="user", reason="begun")
        choose(library, TASK, 200)  # embeds the descriptions, once for a library
        time.sleep(0.1)  # files that were changed just now are read again
        store.load().snapshot  # noqa: B018
        edits = iter(range(TURNS))

        def commit() -> None:
            edit = SkillEdit("edit", f"fleet-{next(edits)}-totals", content="Shorter.")
            store.commit([edit], "review", episode="e", model="m")

        kinds: dict[str, tuple[Callable[[], object], int]] = {
            "the index of a library that is shared, as in a batch": (library.index, TURNS),
            "the 200 most like a task, named, the same": (lambda: index(choose(library, TASK, 200)), TURNS),
            "load and index, same process": (lambda: store.load().index(), TURNS),
            "load and index, new process (its imports apart)": (lambda: SkillStore(root).load().index(), TURNS),
            "load from SKILL.md files alone": (lambda: Library.load(root), 3),
            "with_skill and its snapshot": (lambda: library.with_skill(skill(1, "Other.")).snapshot, TURNS),
            "one write": (commit, TURNS),
        }
        print(f"| {SKILLS:,} skills | ms CPU, median | least |\n|---|---|---|")
        for kind, (work, turns) in kinds.items():
            median, least = cpu_ms(work, turns)
            print(f"| {kind} | {median:.2f} | {least:.2f} |", flush=True)


if __name__ == "__main__":
    main()
