"""Writes to a library as fast as it can, and prints a line for every write that was acknowledged.

`python store_writer.py FOLDER WRITER TIMES`: a skill of its own, a file of a skill that all share, a use of it.
"""

import sys
from pathlib import Path

from hermes_lab.skills.learning.stats import Use
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import SkillEdit


def main(root: Path, writer: str, times: int) -> None:
    store = SkillStore(root)
    for number in range(times):
        name = f"w{writer}-n{number}"
        for edit in (
            SkillEdit("create", name, f"Number {number}.", f"Written by {writer}."),
            SkillEdit("write_file", "shared", content=f"{writer} {number}", path=f"references/{writer}.md"),
        ):
            _, (write,) = store.commit([edit], "review", episode=f"{writer}", model="m")
            print(write.name, write.path or "-", write.snapshot, write.after, flush=True)
        store.note_use(Use("shared", True, f"{writer} {number}"))
        print("use", f"{writer}-{number}", "-", "-", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
