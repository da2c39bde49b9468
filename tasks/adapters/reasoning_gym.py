"""reasoning-gym (Apache-2.0): seeded puzzle generators with scorers.

They are controls: what is learned on one puzzle does not help on the next, so skills should not raise these scores.
"""

import importlib
import os
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import anyio.to_thread

from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Workspace
from hermes_lab.tasks.adapters._missing import not_installed
from hermes_lab.tasks.adapters._oracle import Part
from hermes_lab.tasks.adapters._plain import FUNCTIONS, is_data, is_formula
from hermes_lab.types import Task, Verdict

SPLITS = ("train", "validation", "heldout")
READ_AS_DATA = frozenset({"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"})
READ_AS_FORMULA = frozenset(
    {"countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration"}
)
"""The generators whose scorers `eval` an answer."""
NEEDS_OPTIONS = frozenset({"composite"})
BY_HASH = frozenset({"isomorphic_strings", "knight_swap", "polynomial_multiplication", "ransom_note", "word_ladder"})
"""The generators whose tasks depend on the order of sets of strings, which changes with every process unless
PYTHONHASHSEED is set: a run could not be resumed or replayed."""
FORM = "\n\nPut nothing but the final answer between <answer> and </answer> at the end of your reply."


def load(generators: Sequence[str] = ()) -> "ReasoningGym":
    """The suite of some generators, or of all that are deterministic given a seed.

    Raises `ConfigError` if the package is not installed, or a generator is unknown or unusable.
    """
    known = generator_names()
    if unknown := [name for name in generators if name not in known]:
        raise ConfigError(f"suite.options: generators: no {unknown[0]!r}; there are: {', '.join(known)}")
    if os.environ.get("PYTHONHASHSEED", "random") == "random" and (loose := sorted(BY_HASH.intersection(generators))):
        raise ConfigError(f"suite.options: generators: {', '.join(loose)} draw by string hashes: set PYTHONHASHSEED=0")
    return ReasoningGym(tuple(generators) or tuple(name for name in known if name not in BY_HASH))


def script(task: Task) -> tuple[Part, ...]:
    """The packaged answer; no parts if the generator has none."""
    answer = _entry_of(task)["answer"]
    return () if answer is None else (Part((), f"<answer>{answer}</answer>"),)


def flaw(task: Task) -> str:
    """Why the package has no solution."""
    return "its generator packages no answer" if _entry_of(task)["answer"] is None else ""


def generator_names() -> tuple[str, ...]:
    """All generators that work without options."""
    try:
        factory = importlib.import_module("reasoning_gym.factory")
    except ImportError:
        raise not_installed("reasoning_gym", "reasoning-gym") from None
    optimizer = importlib.import_module("reasoning_gym.code.contrib.bfit.Compiler.Optimizer")
    optimizer.print = _say_nothing  # type: ignore[attr-defined]  # it prints a dot for every program of `bf`
    return tuple(sorted(set(factory.DATASETS) - NEEDS_OPTIONS))


class ReasoningGym:
    """Task n is from generator n, modulo their number, with its own seed; `world` has no effect."""

    name = "reasoning_gym"
    splits = SPLITS

    def __init__(self, generators: tuple[str, ...]) -> None:
        self.generators = generators

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """`count` tasks; one of each generator for a count of 0."""
        if split not in self.splits:
            raise ConfigError(f"suite.split: reasoning_gym has no split {split!r}; there are: {', '.join(SPLITS)}")
        return [self._task(split, seed, number) for number in range(count or len(self.generators))]

    def _task(self, split: str, seed: int, number: int) -> Task:
        generator = self.generators[number % len(self.generators)]
        drawn = zlib.crc32(f"{split}/{seed}/{number}".encode())
        return Task(
            id=f"{split}-s{seed}-{number:04d}-{generator}",
            suite=self.name,
            prompt=_entry(generator, drawn)["question"] + FORM,
            split=split,
            truth={"generator": generator, "seed": drawn},
            metadata={"family": generator},
        )

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict:
        """The score of the packaged scorer, 0 to 1; success is 1."""
        score, reason = await anyio.to_thread.run_sync(_score, task, answer)
        reasons = {} if score == 1.0 else {"score_answer": reason}
        return Verdict(score, score == 1.0, {"score_answer": score}, reasons=reasons)


def _say_nothing(*args: object, **kwargs: object) -> None:
    pass


def _score(task: Task, said: str | None) -> tuple[float, str]:
    generator, entry, answer = task.truth["generator"], _entry_of(task), _extract(said)
    if answer is None:
        return 0.0, "there is no <answer>"
    if not _may_be_read(generator, answer, entry):
        return 0.0, "the answer is more than the data or the formula that was asked for"
    try:
        score = float(_dataset(generator, task.truth["seed"]).score_answer(answer=answer, entry=entry))
    except Exception as error:  # some scorers raise on malformed answers
        return 0.0, f"the scorer cannot read it: {error}"
    return min(max(score, 0.0), 1.0), f"the scorer gives {score:g}"


def _extract(said: str | None) -> str | None:
    """The text of the last <answer>, with its line breaks."""
    _, found, rest = (said or "").rpartition("<answer>")
    text, closed, _ = rest.partition("</answer>")
    return text.strip() or None if found and closed else None


def _may_be_read(generator: str, answer: str, entry: Mapping[str, Any]) -> bool:
    if generator in READ_AS_DATA:
        return is_data(answer)
    if generator not in READ_AS_FORMULA:
        return True
    # "Integral(...)", as in the question, is allowed where the packaged answer uses it.
    own = {"Integral"} if "Integral(" in str(entry["answer"]) else set()
    return is_formula(answer, FUNCTIONS | own)


def _entry_of(task: Task) -> Mapping[str, Any]:
    return _entry(task.truth["generator"], task.truth["seed"])


@lru_cache(maxsize=2048)
def _entry(generator: str, seed: int) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], _dataset(generator, seed)[0])


@lru_cache(maxsize=256)
def _dataset(generator: str, seed: int) -> Any:
    return importlib.import_module("reasoning_gym").create_dataset(generator, size=1, seed=seed)
