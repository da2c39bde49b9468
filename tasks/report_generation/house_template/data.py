"""Clients, their data, and the expected reports."""

from collections.abc import Sequence
from typing import NamedTuple

from hermes_lab.tasks.data_family import Words
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.report_generation.house_template.rules import Custom, Item, Row, SiteConfig

SECTIONS = 4
MIN_ITEMS, MAX_ITEMS = 5, 7


def draw_site(draws: Draws, words: Words) -> SiteConfig:
    """The words of a client's reports."""
    return SiteConfig(
        **draws.choice(words.labels),
        title=draws.choice(words.titles),
        as_of=draws.choice(words.as_of),
        overview=draws.choice(words.overviews),
        currency=draws.choice(words.currencies),
        states=tuple(draws.sample(words.states, 3)),
        sections=tuple(draws.sample(tuple(words.sections), SECTIONS)),
        rest=tuple(words.rest),
        all=tuple(words.all),
    )


def draw_items(site_config: SiteConfig, words: Words, year: int, quarter: int, draws: Draws) -> list[Item]:
    """The data of a quarter, in random order.

    Every section has an item over plan, one under plan, one on plan, one under 100, one between 100 and 200, and one of
    each state. So every rule changes the report, and each in a different way.
    """
    items = []
    for section in site_config.sections:
        count = draws.integer(MIN_ITEMS, MAX_ITEMS)
        names = draws.sample(words.sections[section], count)
        days = draws.sample(range(1, 29), count)
        for number, name in enumerate(names):
            planned, actual = _sums(number, draws)
            day = f"{year}-{3 * quarter - draws.integer(0, 2):02d}-{days[number]:02d}"
            items.append(Item(section, name, day, site_config.states[number % 3], planned, actual))
    return draws.shuffled(items)


def _sums(number: int, draws: Draws) -> tuple[int, int]:
    """The planned and actual amounts of the `number`-th item of a section, in hundredths."""
    planned = draws.integer(30_000, 9_000_000)
    if number == 0:
        return planned, planned
    if number == 1:
        return planned, draws.integer(2_000, 9_900)
    if number == 2:
        return planned, draws.integer(10_100, 19_900)
    off = draws.integer(planned // 20, planned // 4)
    return planned, planned + (off if number == 3 or draws.chance() < 0.5 else -off)


def render_items(site_config: SiteConfig, items: Sequence[Item]) -> str:
    """The data as CSV. No cell needs quoting."""
    labels = (
        site_config.section,
        site_config.item,
        site_config.booked,
        site_config.state,
        site_config.planned,
        site_config.actual,
    )
    rows = [f"{i.section},{i.name},{i.booked},{i.state},{i.planned / 100:.2f},{i.actual / 100:.2f}\n" for i in items]
    return ",".join(labels).lower() + "\n" + "".join(rows)


class Section(NamedTuple):
    """A heading and its table: labels, units, rows and totals."""

    heading: str
    rows: tuple[Row, ...]


class Expected(NamedTuple):
    """The judged parts of a report."""

    day: str
    sections: tuple[Section, ...]


def right_report(site_config: SiteConfig, items: Sequence[Item], day: str, custom: Custom) -> Expected:
    """The report as the client wants it."""
    kept = [item for item in items if custom.keep(item)]
    members = [[item for item in kept if item.section == section] for section in site_config.sections]
    overview = [(name, *_amounts(own, custom)) for name, own in zip(site_config.sections, members, strict=True)]
    sums = (site_config.planned, site_config.actual, site_config.difference)
    tables = [_table((site_config.section, *sums), overview, kept, site_config, custom)]
    tables += [
        _table((site_config.item, site_config.booked, *sums), _rows(own, custom), own, site_config, custom)
        for own in members
    ]
    headings = [custom.heading(n, name) for n, name in enumerate((site_config.overview, *site_config.sections), 1)]
    return Expected(custom.date(day), tuple(map(Section, headings, tables)))


def _rows(items: Sequence[Item], custom: Custom) -> list[Row]:
    if custom.order:
        items = sorted(items, key=custom.order)
    large = [item for item in items if item.actual >= custom.small]
    rows = [(custom.name(item), custom.date(item.booked), *_amounts([item], custom)) for item in large]
    if custom.small:
        rows.append((custom.rest, "", *_amounts([item for item in items if item.actual < custom.small], custom)))
    return rows


def _amounts(items: Sequence[Item], custom: Custom) -> Row:
    planned, actual = sum(item.planned for item in items), sum(item.actual for item in items)
    return tuple(map(custom.money, (planned, actual, custom.difference(planned, actual))))


def _table(
    labels: Row, rows: Sequence[Row], items: Sequence[Item], site_config: SiteConfig, custom: Custom
) -> tuple[Row, ...]:
    empty = len(labels) - 3
    units = (*[""] * empty, *[custom.unit.format(site_config.currency)] * 3)
    total = (custom.total, *[""] * (empty - 1), *_amounts(items, custom))
    return (labels, units, total, *rows) if custom.total_first else (labels, units, *rows, total)
