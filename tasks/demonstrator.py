"""The demonstrator: full episodes as a good agent would make them, to fine-tune small models on.

`hermes-lab learn -c configs/demonstrations.yaml` has it work through the real system, so that what is trained on is
what a model will see: skills that help, that are about something else, that were true once; mistakes of its own and how
it gets over them; reviews that create, patch, and rightly write nothing.
"""

import posixpath
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from hermes_lab.models.scripted import TaskAwarePolicy
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Move, Rule, shell
from hermes_lab.tasks.learner import Learner, Steps, Words, check_rates, thinking
from hermes_lab.tasks.pieces import Piece
from hermes_lab.types import ToolResult

_SHELL = re.compile(r"[|;&<>`$\n]")
"""What makes a command more than a call of one program: its first name alone would not decide whether it fails."""

# A small model does well what it can go on copying, and decides well where one token decides. So a thought begins as
# the name of the skill would, and goes on as in the list or not; the review first says again what its request said, and
# then names the skill as the request named the place. What follows such a point is said in one way alone, since words
# that vary there are what small models mix up.
DEMONSTRATED: Words = MappingProxyType(
    {
        "view": ('Skill "{skill}" is listed: I read it first.',),
        "plain": ('Skill "{about}": none is listed, so for {place} I go the plain way.',),
        "first": ('Skill "{about}": none is listed, and {place} is new.',),
        "follow": ("It says: {rule}.",),
        "silent": ("It asks for nothing special, so the plain way.",),
        "retry": ("Now I know: {rule}.",),
        "misled": ('So "{skill}" is out of date. Now it is: {rule}.',),
        "unruled": ('So "{skill}" is out of date: nothing special holds for {place} now.',),
        "ordinary": ("That was a mistake of mine; nothing special holds for {place}. Again, the plain way.",),
        "unclear": ("It does not say why. I try the plain way.",),
        "mistyped": (
            "I mistyped {wrong}. What is it called?",
            "There is no {wrong}. I look what there is.",
            "That was a slip of mine: {wrong}. Let me look.",
        ),
        "mended": (
            "It is {right}.",
            "The name is {right}.",
            "Now with the right name, {right}.",
        ),
        "reading": ("First I read {path}.", "What does {path} hold?", "A look at {path}."),
        "done": (
            "Done: see {outputs}.",
            "Done, the result is in {outputs}.",
            "I have done it; {outputs} holds the result.",
            "It is done and lies in {outputs}.",
        ),
        "create": ('Accepted after a rejection, and {place} will ask for this again: I save it as "{skill}".',),
        "patch": ('Accepted after a rejection, so "{skill}" is out of date: I patch it.',),
        "saved": ("Saved.",),
        "kept": ("Accepted at the first try: the skill was right, and there is nothing to save.",),
        "nothing": ("Accepted at the first try: plain work, and nothing to save.",),
    }
)


def demonstrator(seed: int = 0, stumble: float = 0.12, look: bool = True) -> TaskAwarePolicy:
    """A learner that captures everything. It looks around before it works, so that it writes over
    nothing that it never saw; `look: false` is for work that writes over nothing, and for small models. In a share
    `stumble` of the tasks it mistypes something, reads the error, looks, and does it rightly: no failed call is ever
    made again."""
    check_rates(stumble=stumble)
    return TaskAwarePolicy(lambda task: Demonstrator(task, seed=seed, stumble=stumble, look=look))


@dataclass(frozen=True)
class Demonstrator(Learner):
    """The policy of one task."""

    stumble: float = 0.12
    look: bool = True
    words: ClassVar[Words] = DEMONSTRATED

    def do(self, piece: Piece, rule: Rule | None, thought: str) -> Steps:
        """A look around, unless the moves begin with it; perhaps a slip of the hand; then the moves."""
        moves = piece.moves(rule)
        looks = [look for look in piece.looks() if self.look and not _same_call(look, moves[0])]
        yield from thinking(thought, looks)
        thought = "" if looks else thought
        if self.happens("stumble", self.stumble, piece):
            thought = yield from self._stumble(piece, moves, thought)
        yield from thinking(thought, moves)

    def _stumble(self, piece: Piece, moves: Sequence[Move], thought: str) -> Generator[Move, ToolResult, str]:
        """A name is mistyped, and found by looking: that of the program that the first move runs, of a page, or of a
        file. Returns what is thought next."""
        draws, first = self.draws("mistype", piece.place.site.name), moves[0]
        command = str(first.arguments.get("command", ""))
        program = command.split(" ", 1)[0]
        if program.startswith("./") and not _SHELL.search(command):
            wrong = mistyped(program, draws)
            yield from thinking(thought, [_changed(first, command.replace(program, wrong, 1))])
            yield _changed(first, f"ls {posixpath.dirname(program)}", self.say("mistyped", piece, wrong=wrong))
            return self.say("mended", piece, right=program)
        urls = [url for move in moves if move.tool == "web_extract" for url in move.arguments["urls"]]
        if urls and first.tool == "web_search":
            wrong = mistyped(draws.choice(urls), draws)
            yield Move("web_extract", {"urls": [wrong]}, thought)
            return self.say("mistyped", piece, wrong=wrong)
        if not piece.scene.inputs:
            return thought
        path = draws.choice(piece.scene.inputs)
        wrong = mistyped(path, draws)
        for move in (
            shell(f"head -n 5 {wrong}", f"{thought} {self.say('reading', piece, path=path)}".strip()),
            shell(f"ls {posixpath.dirname(path) or '.'}", self.say("mistyped", piece, wrong=wrong)),
            shell(f"head -n 5 {path}", self.say("mended", piece, right=path)),
        ):
            yield piece.inside(move)
        return ""


def mistyped(path: str, draws: Draws) -> str:
    """A path with two neighbouring letters of its name swapped."""
    folder, name = posixpath.split(path)
    places = [n for n in range(len(name) - 1) if name[n : n + 2].isalpha() and name[n] != name[n + 1]]
    if not places:
        return f"{path}x"
    n = draws.choice(places)
    return posixpath.join(folder, name[:n] + name[n + 1] + name[n] + name[n + 2 :])


def _same_call(one: Move, other: Move) -> bool:
    return (one.tool, one.arguments) == (other.tool, other.arguments)


def _changed(move: Move, command: str, thought: str = "") -> Move:
    """The move with another command."""
    return Move(move.tool, {**move.arguments, "command": command}, thought or move.thought)
