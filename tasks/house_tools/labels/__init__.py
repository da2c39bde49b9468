"""The family `labels`: labels for a depot's parcels are printed with the house tool, as the depot wants them."""

from collections.abc import Sequence
from pathlib import Path

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity
from hermes_lab.tasks.house_tools._lines import Columns, LineTool, rules_of
from hermes_lab.tasks.house_tools.labels.rules import CUSTOMS, Parcel, SiteConfig, plain
from hermes_lab.tasks.house_tools.labels.words import FIRST, KINDS, LAST, REQUESTS, STREETS, TOWNS


class Labels(LineTool[SiteConfig, Parcel]):
    """Every kind and weight that a custom could be about is in every file."""

    name = "labels"
    noun = "depot"
    summary = "print labels for parcels with the house tool, as the depot wants them"
    tool, verb, answer = "labels", "print", "labels.txt"
    customs = CUSTOMS
    rules = rules_of(f"./{tool} {verb}", CUSTOMS)
    flags = {name: custom.flags for name, custom in CUSTOMS.items()}  # noqa: RUF012
    requests = REQUESTS
    columns = Columns(Parcel._fields, Path(__file__).parent)

    def file_of(self, entity: Entity) -> str:
        """A depot's parcels."""
        return f"{entity.slug('parcels')}.csv"

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """Three kinds of parcels."""
        return SiteConfig(tuple(draws.sample(KINDS[entity.split], 3)))

    def rows(self, site_config: SiteConfig, draws: Draws) -> tuple[Parcel, ...]:
        """Seven to ten parcels."""
        return _parcels(site_config, draws)

    def plain(self, rows: Sequence[Parcel]) -> list[str]:
        """A label for each."""
        return plain(rows)


def _parcels(site_config: SiteConfig, draws: Draws) -> tuple[Parcel, ...]:
    """Of every kind at least two, on both sides of every weight, in the order of no column."""
    number = draws.integer(7, 10)
    kinds = draws.shuffled(
        [*site_config.kinds, *site_config.kinds, *(draws.choice(site_config.kinds) for _ in range(number - 6))]
    )
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
    return tuple(parcels) if _in_no_order(parcels) else _parcels(site_config, draws)


def _in_no_order(parcels: Sequence[Parcel]) -> bool:
    keys = ("name", "code", "town", "street")
    return all(list(parcels) != sorted(parcels, key=lambda parcel: str(getattr(parcel, key))) for key in keys)


FAMILY = Labels()
