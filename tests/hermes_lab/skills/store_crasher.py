"""Kills a process at every step of a change, in turn: `python store_crasher.py FOLDER`. Prints `OPERATION OUTCOME ...`.

A step is any call that reaches the disk; a write is cut in half. A process of its own, since it forks.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library, read_library
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import Skill, SkillEdit

STEPS = ("fsync", "rename", "replace", "unlink", "rmdir", "mkdir", "write", "pwrite", "truncate")


BROKEN = b"half an edit"


def skill(name: str, body: str, *paths: str) -> Skill:
    text = skill_format.render(name, f"About {name}", body)
    return skill_format.parse(text, {path: f"{body} {path}".encode() for path in paths})


OLD = Library([skill("a", "old", "scripts/x.py", "assets/y"), skill("b", "old"), skill("c", "old", "references/z.md")])
NEW = Library([skill("a", "new", "scripts/x.py", "assets/y/z"), skill("c", "old"), skill("d", "new", "scripts/new.py")])


def patch(store: SkillStore) -> None:
    store.commit([SkillEdit("patch", "b", old_string="old", new_string="new")], "review", episode="e", model="m")


def create(store: SkillStore) -> None:
    store.commit([SkillEdit("create", "new-one", "d", "body")], "review", episode="e", model="m")


def delete(store: SkillStore) -> None:
    store.commit([SkillEdit("delete", "a")], "review", episode="e", model="m")


def replace(store: SkillStore) -> None:
    store.change(lambda _: NEW, origin="user", reason="all at once")


def over_broken(store: SkillStore) -> None:
    store.change(lambda _: OLD, origin="user", reason="restored", over_broken=True)


def by_hand(store: SkillStore) -> None:
    store.load()


def killed_at(step: int) -> None:
    """This process is killed at its `step`th step from now."""
    steps = count()

    def hook(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*args: Any, **kwargs: Any) -> Any:
            if next(steps) == step:
                if name == "write":
                    real(args[0], args[1][: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return stepping

    for name in STEPS:
        setattr(os, name, hook(name, getattr(os, name)))


def main(folder: Path) -> None:
    template = folder / "template"
    SkillStore(template).change(lambda _: OLD, origin="user", reason="begun")
    for operation in (patch, create, delete, replace, over_broken, by_hand):
        root = folder / operation.__name__
        outcomes = []
        for step in count():
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(template, root)
            if operation is by_hand:
                (root / "b" / "SKILL.md").write_text(skill("b", "by hand").text)
                shutil.rmtree(root / "c")
            if operation is over_broken:
                (root / "a" / "SKILL.md").write_bytes(BROKEN)
                (root / "a" / "scripts" / "x.py").write_bytes(b"otherwise")
            if not (child := os.fork()):
                killed_at(step)
                operation(SkillStore(root))
                os._exit(0)
            alive = os.waitpid(child, 0)[1] == 0
            outcomes.append(outcome(root))
            if operation is over_broken:
                left = [root / "a" / "SKILL.md", *root.glob(".hermes/aside/*/a/SKILL.md")]
                assert BROKEN in [path.read_bytes() for path in left if path.exists()], "a person's text is lost"
            if alive:
                break
        print(operation.__name__, *outcomes)


def outcome(root: Path) -> str:
    """Which state the library is in, once it is certain that everything that tells of it agrees."""
    store = SkillStore(root)
    library = store.load()
    assert read_library(root)[0].snapshot == library.snapshot == SkillStore(root).load().snapshot
    changes = list(store.history())
    assert changes[-1].after == library.snapshot
    assert [change.before for change in changes[1:]] == [change.after for change in changes[:-1]]
    for change in store.snapshots():
        assert store.at(change.after).snapshot == change.after
    # A load that may trust what it saw before leaves scraps to the next change.
    store.change(lambda unchanged: unchanged, origin="user", reason="none")
    assert not list((root / ".hermes" / "scratch").iterdir())
    return library.snapshot


if __name__ == "__main__":
    main(Path(sys.argv[1]))
