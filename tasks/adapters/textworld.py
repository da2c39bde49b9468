"""TextWorld (Microsoft, MIT): a text adventure generated from a seed, played with one tool, `act`.

Games are generated, compiled with the packaged Inform 7, and run by jericho (GPL-2.0) in this process: about a second
per episode.
"""

import re
import shutil
import tempfile
import threading
import warnings
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import anyio.to_thread

from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Workspace
from hermes_lab.suites import Turn
from hermes_lab.tasks.adapters._missing import not_installed
from hermes_lab.tasks.adapters._oracle import Part
from hermes_lab.tasks.family import Action
from hermes_lab.tools.given import given_tool
from hermes_lab.types import Task, Verdict

SPLITS = ("train", "validation", "heldout")
PROMPT = (
    "A text adventure has begun. Play it to its end with the tool `act`, one command a call: `goal` tells what there "
    "is to do, `look` where you are, `help` what commands there are. When the game says that it has ended, say so."
)
_ACT = {
    "type": "object",
    "properties": {"command": {"type": "string", "description": "What you do in the game, such as: go north"}},
    "required": ["command"],
}
_COMMAND = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9 ,'-]{0,199}")  # other bytes can hang the interpreter
_OF_THE_INTERPRETER = frozenset({"q", "quit", "restart", "restore", "save", "script", "transcript", "undo", "verify"})
_STATUS_LINE = re.compile(r"\n>\s+-= [^\n]*\Z")
_TRIES = 50
_making = threading.Lock()  # games share the grammar of the package


def load(rooms: int = 4, objects: int = 8, quest_length: int = 5) -> "TextWorld":
    """The suite. Raises `ConfigError` if TextWorld is not installed."""
    for name, value in {"rooms": rooms, "objects": objects, "quest_length": quest_length}.items():
        if value < 1:
            raise ConfigError(f"suite.options: {name}: at least 1")
    try:
        import textworld  # noqa: F401
    except ImportError:
        raise not_installed("textworld", "textworld") from None
    return TextWorld(rooms, objects, quest_length)


def script(task: Task) -> tuple[Part, ...]:
    """The game's own walkthrough."""
    commands: list[str] = _game(*task.truth["game"]).metadata["walkthrough"]
    return (Part(tuple(Action("act", {"command": command}) for command in commands), "The game has ended."),)


class TextWorld:
    """An unlimited number of games; `world` has no effect."""

    name = "textworld"
    splits = SPLITS

    def __init__(self, rooms: int, objects: int, quest_length: int) -> None:
        self._size = (rooms, objects, quest_length)

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """`count` games, generated when they are played. Raises `ConfigError` for a count of 0."""
        if split not in self.splits:
            raise ConfigError(f"suite.split: textworld has no split {split!r}; there are: {', '.join(SPLITS)}")
        if count < 1:
            raise ConfigError("textworld is endless; say how many tasks, at least 1", "suite.count")
        return [self._task(split, seed, number) for number in range(count)]

    def _task(self, split: str, seed: int, number: int) -> Task:
        drawn = zlib.crc32(f"{split}/{seed}/{number}".encode())
        return Task(
            id=f"{split}-s{seed}-{number:04d}",
            suite=self.name,
            prompt=PROMPT,
            split=split,
            truth={"game": (drawn, *self._size)},
            metadata={"family": "textworld", "quest_length": self._size[2]},
        )

    async def open_session(self, task: Task) -> "TextWorldStage":
        """A new game."""
        return await anyio.to_thread.run_sync(TextWorldStage, task.truth["game"])

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        """The verdict on an episode without a session, in which the game was not played."""
        return _verdict(won=False, points=0.0)


class TextWorldStage:
    """One game in progress."""

    def __init__(self, game: tuple[int, int, int, int]) -> None:
        import textworld

        self._folder = Path(tempfile.mkdtemp(prefix="hermes-lab-textworld-"))
        # TextWorld itself tracks what the interpreter does not.
        warnings.filterwarnings("ignore", message="Game .* is not fully supported")
        asked = textworld.EnvInfos(won=True, score=True, max_score=True)
        self._env = textworld.start(_compiled(game, self._folder), request_infos=asked)
        self._env.seed(game[0] % 2**31)
        self._state = self._env.reset()
        self._done = self._closed = False
        self._lock = threading.Lock()
        act = "Does one thing in the text adventure, and tells what comes of it."
        self.tools = (given_tool("act", act, _ACT, self._act),)

    async def next_user_turn(self, answer: str | None) -> Turn | None:
        """None: nobody replies to answers."""
        return None

    async def verify(self, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        """Success is a won quest; the share of points is an extra score."""
        return _verdict(won=bool(self._state["won"]), points=self._state["score"] / self._state["max_score"])

    async def aclose(self) -> None:
        """Stops the interpreter, unless it hangs: it is busy for a second, though answers take milliseconds."""
        self._closed = True
        if self._lock.acquire(timeout=1):
            self._env.close()
            self._lock.release()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _act(self, command: object) -> dict[str, Any]:
        line = " ".join(str(command).split())
        if not _COMMAND.fullmatch(line) or not _OF_THE_INTERPRETER.isdisjoint(line.lower().replace(",", " ").split()):
            return {"error": f"{line!r} is no command of this game"}
        with self._lock:
            if self._done or self._closed:
                return {"error": "the game has ended"}
            self._state, _, self._done = self._env.step(line)
        told = _STATUS_LINE.sub("", self._state.feedback).strip()
        return {"feedback": told, "ended": True} if self._done else {"feedback": told}


def _verdict(*, won: bool, points: float) -> Verdict:
    reasons = {} if won else {"won": "the quest was not brought to its end"}
    return Verdict(float(won), won, {"won": float(won), "points": points}, reasons=reasons)


@lru_cache(maxsize=64)
def _game(seed: int, rooms: int, objects: int, quest_length: int) -> Any:
    """The game of the seed, or of the first seed after it that has a quest of that length."""
    from textworld.generator import make_game
    from textworld.generator.chaining import QuestGenerationError

    with _making:
        for tried in range(_TRIES):
            try:
                return make_game(_options(seed + tried, rooms, objects, quest_length))
            except QuestGenerationError:
                continue
    raise ConfigError(f"suite.options: no quest of length {quest_length} in {rooms} rooms with {objects} objects")


def _options(seed: int, rooms: int, objects: int, quest_length: int) -> Any:
    from textworld import GameOptions

    options = GameOptions()
    options.seeds, options.nb_rooms, options.nb_objects, options.quest_length = seed, rooms, objects, quest_length
    return options


def _compiled(game: tuple[int, int, int, int], folder: Path) -> str:
    from textworld.generator import compile_game

    made = _game(*game)
    options = _options(*game)
    options.path = str(folder / "game.z8")
    with _making:
        path: str = compile_game(made, options)
    return path
