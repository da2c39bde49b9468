"""The figures in `answer.json`, and how each is judged. Does not run or open anything else in the workspace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.evidence import inputs_untouched, is_number, read_json
from hermes_lab.tasks.family import Criterion, TaskInstance, criterion

ANSWER = "answer.json"
CENT = 0.005
"""The tolerance of amounts and means, which have at least two decimals."""


class Figure(Protocol):
    """One figure: `key` is its key in the answer, `name` the name of its criterion."""

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def form(self) -> str:
        """The required form, regardless of the rule, for the reason of the criterion `schema`."""
        ...

    def fits(self, value: object) -> bool:
        """Whether a value has the required form."""
        ...

    def share(self, value: object) -> float:
        """The share of a well-formed value that is right."""
        ...


@dataclass(frozen=True)
class Number:
    """A number. `tolerance` is absolute."""

    name: str
    key: str
    right: float
    tolerance: float = 0.0
    form: str = "a number"

    def fits(self, value: object) -> bool:
        """Whether it is a finite number, not a string."""
        return is_number(value)

    def share(self, value: object) -> float:
        """1 or 0."""
        return float(_near(value, self.right, self.tolerance))


@dataclass(frozen=True)
class Table:
    """A mapping from keys to numbers."""

    name: str
    key: str
    right: Mapping[str, float]
    tolerance: float = 0.0
    form: str = "an object of numbers"

    def fits(self, value: object) -> bool:
        """Whether it is an object of finite numbers, with any keys."""
        return isinstance(value, dict) and bool(value) and all(map(is_number, value.values()))

    def share(self, value: object) -> float:
        """The number of right entries, divided by that of all given or expected ones."""
        given = value if isinstance(value, dict) else {}
        right = sum(_near(given[key], self.right[key], self.tolerance) for key in given.keys() & self.right.keys())
        return right / len(given.keys() | self.right.keys())


@dataclass(frozen=True)
class Text:
    """A string. Several values may be right."""

    name: str
    key: str
    right: frozenset[str]
    form: str = "a string"

    def fits(self, value: object) -> bool:
        """Whether it is a non-empty string."""
        return isinstance(value, str) and bool(value)

    def share(self, value: object) -> float:
        """1 or 0."""
        return float(value in self.right)


async def judge_figures(instance: TaskInstance, workspace: Workspace, figures: Sequence[Figure]) -> Sequence[Criterion]:
    """The criteria: one per figure, and those that no rule decides."""
    found = await read_json(workspace, ANSWER, limit=100_000)
    given = found if isinstance(found, dict) else {}
    fits = {figure.key: figure.fits(given.get(figure.key)) for figure in figures}
    wanted = " and ".join(f"`{figure.key}`, {figure.form}" for figure in figures if not fits[figure.key])
    return (
        criterion("answer_present", found is not None, f"{ANSWER} is missing or not valid JSON"),
        criterion("schema", all(fits.values()), f"{ANSWER} needs {wanted}"),
        await inputs_untouched(workspace, instance.files, instance.inputs),
        *(_judged(figure, figure.share(given[figure.key]) if fits[figure.key] else 0.0) for figure in figures),
    )


def _judged(figure: Figure, share: float) -> Criterion:
    return Criterion(figure.name, share, "" if share == 1.0 else f"`{figure.key}` is wrong", ruled=True)


def _near(value: object, right: float, tolerance: float) -> bool:
    # Slightly more than the tolerance, since 1.005 - 1.0 is not 0.005 in floating point.
    return isinstance(value, int | float) and abs(value - right) <= tolerance + 1e-9
