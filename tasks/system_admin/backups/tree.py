"""Trees that are hard to back up: odd names, hard links, a symbolic link, holes; and the commands that make them."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from hermes_lab.tasks.data_family import Words
from hermes_lab.tasks.draws import Draws

TIME = 1_600_000_000
"""Modification time of all files, in seconds of Unix time."""


class Entry(NamedTuple):
    """A file or link of a tree. `same` is the path of the file that a hard link is of, `hole` a sparse file's size."""

    path: str
    text: str = ""
    mode: str = "644"
    same: str = ""
    target: str = ""
    hole: int = 0

    @property
    def size(self) -> int:
        """Bytes."""
        return self.hole or len((self.text or self.target).encode())


Tree = tuple[Entry, ...]

_ODD = (
    "-{0}.txt",
    "{0} & co.txt",
    "50% {0}.txt",
    "{0}'s.txt",
    "[{0}] 1.txt",
    "#{0} (2).txt",
    "${0} *.txt",
    "é {0}.txt",
)


def draw_tree(draws: Draws, words: Words, folders: Sequence[str], skipped: str) -> Tree:
    """A tree over three folders and the skipped one, with something for every convention to change."""
    first, second, third = folders
    stems = draws.shuffled(words.stems)
    odd = draws.sample(_ODD, 2)

    def text() -> str:
        return f"{draws.choice(words.texts)} {draws.integer(10, 99_999)}\n"

    plain = f"{stems[0]}-{draws.integer(1, 99)}.txt"
    return (
        Entry(f"{first}/{plain}", text(), "640"),
        Entry(f"{first}/{stems[1]}  {draws.integer(1, 99)}.txt", text()),
        Entry(f"{first}/{odd[0].format(stems[2])}", text()),
        Entry(f"{second}/{odd[1].format(stems[3])}", text(), "600"),
        Entry(f"{second}/-{stems[0]}.txt", text()),
        Entry(f"{second}/.{stems[1]}", text()),
        Entry(f"{second}/{draws.choice(words.scripts)}", f"#!/bin/sh\n# {text()}", "755"),
        Entry(f"{third}/{stems[2]}.txt", text()),
        Entry(f"{third}/{stems[3]}.lock"),
        Entry(f"{skipped}/{stems[0]}.txt", text()),
        Entry(f"{second}/{stems[2]}-again.txt", same=f"{third}/{stems[2]}.txt"),
        Entry(f"{second}/latest", target=f"../{first}/{plain}"),
        Entry(f"{third}/{draws.choice(words.images)}", hole=draws.integer(2, 4) << 20),
    )


def grown(tree: Tree) -> Tree:
    """The tree a day later, with names that the script's author could not see."""
    first, second, third, skipped = (tree[n].path.partition("/")[0] for n in (0, 3, 7, 9))
    return (
        *tree,
        Entry(f"{first}/new and  late.txt", "late\n"),
        Entry(f"{third}/sub/-late", "sub\n", "440"),
        Entry(f"{third}/sub/none"),
        Entry(f"{skipped}/late.txt", "gone\n"),
        Entry(f"{first}/late-again", same=f"{third}/sub/-late"),
        Entry(f"{second}/late-link", target="../nowhere"),
        Entry(f"{third}/late.img", hole=3 << 20),
    )


def make_rest(tree: Tree, root: str) -> str:
    """The command that completes the tree from the text files in `root`: links, holes, modes and times."""
    steps = []
    for mode in sorted({each.mode for each in tree if each.mode != "644"}):
        paths = " ".join(_quoted(root, each.path) for each in tree if each.mode == mode)
        steps.append(f"chmod {mode} {paths}")
    for each in tree:
        if each.hole:
            steps.append(f"truncate -s {each.hole} {_quoted(root, each.path)}")
        elif each.same:
            steps.append(f"ln {_quoted(root, each.same)} {_quoted(root, each.path)}")
        elif each.target:
            steps.append(f"ln -s {each.target} {_quoted(root, each.path)}")
    files = " ".join(_quoted(root, each.path) for each in tree if not each.target)
    return " && ".join([*steps, f"touch -d @{TIME} {files}"])


def make_all(tree: Tree, root: str) -> str:
    """The command that makes the whole tree from nothing."""
    folders = sorted({_quoted(root, each.path.rpartition("/")[0]) for each in tree})
    texts = [each for each in tree if not (each.hole or each.same or each.target)]
    steps = [f"mkdir -p {' '.join(folders)}"]
    steps += [f"printf %s {shlex.quote(each.text)} > {_quoted(root, each.path)}" for each in texts]
    return " && ".join([*steps, make_rest(tree, root)])


def _quoted(root: str, path: str) -> str:
    return shlex.quote(f"{root}/{path}")
