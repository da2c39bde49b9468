"""The sha256 of 1,000 tasks of each family: published results hold for these tasks, byte for byte.

python tests/task_digests.py           # compares with tests/golden/task-digests.json
python tests/task_digests.py --write   # writes that file: after a family was added; if one changed, docs/results.md
                                       # no longer holds; if all did, raise hermes_lab.tasks_version.CURRENT
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import msgspec

from hermes_lab.config.schema import SuiteConfig
from hermes_lab.tasks.registry import domains, load_suite, served, stories

GOLDEN = Path(__file__).parent / "golden" / "task-digests.json"
SPLITS, WORLDS, COUNT = ("train", "heldout"), 20, 25
"""Of each family: 2 x 20 x 25 tasks."""


def digest(name: str) -> str:
    """Of all that an agent and its sandbox are given; what the verifier knows beside that is no part of it."""
    suite = load_suite(SuiteConfig(name=name))
    found = hashlib.sha256()
    for split in SPLITS:
        for world in range(WORLDS):
            for task in suite.load(split=split, count=COUNT, seed=0, world=world):
                shown = msgspec.structs.replace(task, truth={})
                found.update(msgspec.json.encode(shown, order="sorted") + b"\n")
    return found.hexdigest()


def main() -> int:
    """The exit code: 1 if the tasks of a family have changed."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--write", action="store_true", help="write the golden file")
    write = arguments.parse_args().write
    names = [*(family for families in domains().values() for family in families), *served(), *stories()]
    found = {name: digest(name) for name in sorted(names)}
    if write:
        GOLDEN.write_text(json.dumps(found, indent=2) + "\n")
        return 0
    golden = json.loads(GOLDEN.read_text())
    changed = [name for name in golden if found.get(name) != golden[name]]
    for name in found:
        note = "  changed" if name in changed else "" if name in golden else "  new"
        print(f"{name:16} {found[name]}{note}")
    print(f"{len(changed)} of {len(golden)} families changed{': ' + ', '.join(changed) if changed else ''}")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
