"""The family `labels`: labels for a depot's parcels are printed with the house tool, as the depot wants them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes_lab.protocols import Workspace
from tasks.draws import Draws
from tasks.evidence import inputs_untouched, read_text
from tasks.family import Criterion, Rule, Site, criterion, sentence
from tasks.house_tool import HouseTool, ToolScene, flag_rule, tool_text
from tasks.house_tools.labels.rules import CUSTOMS, Parcel, Shape, plain
from tasks.house_tools.labels.words import FIRST, KINDS, LAST, REQUESTS, STREETS, TOWNS

TOOL, VERB = "labels", "print"
ANSWER = "labels.txt"
LIMIT = 20_000


@dataclass(frozen=True, kw_only=True)
class Load(ToolScene):
    """The parcels of one day."""

    parcels: tuple[Parcel, ...]


RULES = {
    name: flag_rule(f"./{TOOL} {VERB}", custom.flags, custom.clauses, custom.draw, unseen=custom.unseen)
    for name, custom in CUSTOMS.items()
}
FLAGS = {name: custom.flags for name, custom in CUSTOMS.items()}


class Labels(HouseTool[Shape, Load]):
    """Every kind and weight that a custom could be about is in every file."""

    name = "labels"
    domain = "house_tools"
    noun = "depot"
    summary = "print labels for parcels with the house tool, as the depot wants them"
    subject = "how the labels of {place} are printed"
    rules = RULES
    tool = TOOL
    verb = VERB
    answer = ANSWER
    flags = FLAGS

    def file_of(self, site: Site) -> str:
        """A depot's parcels."""
        return f"{site.slug('parcels')}.csv"

    def shape(self, site: Site, kind: str, draws: Draws) -> Shape:
        """Three kinds of parcels."""
        return Shape(tuple(draws.sample(KINDS[site.split], 3)))

    def scene(self, site: Site, shape: Shape, draws: Draws) -> Load:
        """Seven to ten parcels."""
        file, parcels = self.file_of(site), _parcels(shape, draws)
        words = {"place": site.called(self.noun), "file": file, "command": self.command(file)}
        lines = [",".join(map(str, row)) for row in (Parcel._fields, *parcels)]
        return Load(
            request=sentence(site.phrase(draws, REQUESTS).format(**words), file),
            files={TOOL: tool_text(Path(__file__).parent), file: "".join(f"{line}\n" for line in lines)},
            inputs=(TOOL, file),
            outputs=(ANSWER,),
            file=file,
            parcels=parcels,
        )

    async def judge(
        self, scene: Load, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges the lines of `labels.txt` by those that the harness makes itself, not with the tool."""
        text = await read_text(workspace, ANSWER, LIMIT)
        found = [line.rstrip() for line in text.splitlines() if line.strip()] if text else []
        return (
            criterion("answer_present", bool(found), f"{ANSWER} is missing, or empty"),
            await inputs_untouched(workspace, scene.files, scene.inputs),
            criterion("correct", found == right_labels(scene, rule), "the labels are not right", ruled=True),
        )


def right_labels(scene: Load, rule: Rule | None) -> list[str]:
    """The labels where `rule` holds."""
    return CUSTOMS[rule.type].labels(scene.parcels, dict(rule.literals)) if rule else plain(scene.parcels)


def _parcels(shape: Shape, draws: Draws) -> tuple[Parcel, ...]:
    """Of every kind at least two, on both sides of every weight, in the order of no column."""
    number = draws.integer(7, 10)
    kinds = draws.shuffled([*shape.kinds, *shape.kinds, *(draws.choice(shape.kinds) for _ in range(number - 6))])
    kilos = draws.shuffled(
        [draws.integer(1, 7), draws.integer(21, 30), *(draws.integer(1, 30) for _ in range(number - 2))]
    )
    names = draws.sample([f"{first} {last}" for first in FIRST for last in LAST], number)
    codes = draws.sample(list(range(1000, 9999, 7)), number)
    streets = [f"{draws.choice(STREETS)} {draws.integer(1, 80)}" for _ in range(number)]
    parcels = [
        Parcel(name, street, str(code), draws.choice(TOWNS), kind, weight)
        for name, street, code, kind, weight in zip(names, streets, codes, kinds, kilos, strict=True)
    ]
    # Whatever a custom sorts by, the first two are the wrong way round.
    return tuple(parcels) if _in_no_order(parcels) else _parcels(shape, draws)


def _in_no_order(parcels: Sequence[Parcel]) -> bool:
    keys = ("name", "code", "town", "street")
    return all(list(parcels) != sorted(parcels, key=lambda parcel: str(getattr(parcel, key))) for key in keys)


FAMILY = Labels()
