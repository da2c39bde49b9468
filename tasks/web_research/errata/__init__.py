"""The family `errata`: tables, footnotes, corrections and press releases disagree; the client decides which counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Entity
from hermes_lab.tasks.rules import Behavior, load_conventions
from hermes_lab.tasks.web_research._claims import Claim, Question, Research, Selections, Source
from hermes_lab.tasks.web_research._forms import forms
from hermes_lab.tasks.web_research._site import FIGURES, Published, draw_day, draw_publisher, draw_some
from hermes_lab.types import Page

_YEARS = tuple(range(2012, 2020))
_ASKED_YEARS = (2016, 2017, 2018, 2019)
_TENTH = Decimal("0.1")


@dataclass(frozen=True)
class SiteConfig(Published):
    """A publisher of yearbooks, with the districts in its tables and the offices that issue press releases."""

    areas: tuple[str, ...]
    releasers: tuple[str, ...]


class Found(NamedTuple):
    """A number and its source."""

    number: int
    source: Source


@dataclass(frozen=True, kw_only=True)
class Cell(Question):
    """A question for a cell of a table. `found` has the number in each source, by name."""

    year: int
    area: str
    table: Mapping[int, Mapping[str, int]]
    """Year and district -> number, in the newest edition."""
    found: Mapping[str, Found]

    @property
    def number(self) -> int:
        """The number in the table."""
        return self.table[self.year][self.area]


def _of(found: Found) -> Claim:
    return Claim(Decimal(found.number), 0, (found.source,))


def _elsewhere(key: str) -> Callable[[Cell, Mapping[str, str]], Claim]:
    return lambda instance, rule: _of(instance.found[key.format(**rule)])


def _percent(part: int, whole: int) -> Decimal:
    return (Decimal(part * 100) / whole).quantize(_TENTH, ROUND_HALF_UP)


def _index(instance: Cell, rule: Mapping[str, int]) -> Claim:
    base = instance.table[rule["year"]][instance.area]
    return Claim(_percent(instance.number, base), 1, (instance.found["table"].source,))


def _change(instance: Cell, rule: Mapping[str, int]) -> Claim:
    before = instance.table[instance.year - rule["number"]][instance.area]
    return Claim(Decimal(instance.number - before), 0, (instance.found["table"].source,))


def _share(instance: Cell, rule: Mapping[str, str]) -> Claim:
    del rule
    row = instance.table[instance.year]
    return Claim(_percent(instance.number, sum(row.values())), 1, (instance.found["table"].source,))


SELECTIONS: Selections = load_conventions(
    __file__,
    {
        "footnote": Behavior(_elsewhere("footnote")),
        "sheet": Behavior(
            _elsewhere("{sheet}"), lambda site_config: [{"sheet": sheet} for sheet in site_config.words.sheets]
        ),
        "edition": Behavior(
            _elsewhere("{edition}"),
            lambda site_config: [{"edition": edition} for edition in site_config.words.editions[:2]],
        ),
        "release": Behavior(_elsewhere("{releaser}")),
        "index": Behavior(_index),
        "change": Behavior(_change),
        "share": Behavior(_share),
    },
)


class Errata(Research[SiteConfig, Cell]):
    """Conflicting numbers. Each source has a different one."""

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """A town, with its districts."""
        words = self.words[entity.split]
        areas, releasers = draws.sample(words.areas, 3), draws.sample(words.releasers, 2)
        return SiteConfig(draw_publisher(entity, draws, "numbers"), words, tuple(areas), tuple(releasers))

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Cell:
        """Three editions of a table and of two others, two sheets of corrections, and press releases."""
        publisher, words = site_config.publisher, site_config.words
        topic, *others = draws.sample(words.topics, 4)
        year, area = draws.choice(_ASKED_YEARS), draws.choice(site_config.areas)
        table = _draw_table(site_config, draws)
        spare = [each for each in draw_some(draws, FIGURES, 9) if each != table[year][area]]
        cell = _Corrected(site_config, topic, year, area, spare)
        pages = cell.editions(table, draws) + cell.sheets(others, draws) + cell.releases(others, draws)
        for other in others[:2]:
            own = _draw_table(site_config, draws)
            pages += [_table(site_config, other, edition, own, {}, draws) for edition in words.editions]
        links = [f"- [{page.title.partition(' | ')[0]}]({page.url})" for page in pages]
        pages.append(publisher.page("contents", words.contents, links, draw_day(draws, 2024, 2024)))
        return Cell(
            request=self.ask(
                entity, draws, topic=topic, area=area, year=year, edition=words.editions[2], town=publisher.town
            ),
            pages=(*draws.shuffled(pages), *(each.page for each in publisher.standing)),
            query=f"{topic} {area} {words.editions[2]} {publisher.town}",
            reads=((cell.found["table"].source.url,),),
            year=year,
            area=area,
            table=table,
            found=cell.found,
        )

    def plain(self, instance: Cell) -> Claim:
        """The number in the table."""
        return _of(instance.found["table"])


def _draw_table(site_config: SiteConfig, draws: Draws) -> dict[int, dict[str, int]]:
    return {year: {area: draws.choice(FIGURES) for area in site_config.areas} for year in _YEARS}


def _row(site_config: SiteConfig, year: int, numbers: Mapping[str, int], noted: str = "") -> str:
    cells = (f"{numbers[area]} [a]" if area == noted else str(numbers[area]) for area in site_config.areas)
    return f"| {year} | {' | '.join(cells)} |"


def _table(
    site_config: SiteConfig,
    topic: str,
    edition: str,
    table: Mapping[int, Mapping[str, int]],
    noted: Mapping[int, str],
    draws: Draws,
    note: Sequence[str] = (),
    changed: date | None = None,
) -> Page:
    """A table; its cells `noted` (year -> district) refer to the `note`."""
    words, publisher = site_config.words, site_config.publisher
    head = (f"| {' | '.join((words.year, *site_config.areas))} |", "|" + " --- |" * (1 + len(site_config.areas)))
    rows = (_row(site_config, year, table[year], noted.get(year, "")) for year in _YEARS)
    day = changed or draw_day(draws, 2020, 2023)
    path = f"{topic}/{edition}".replace(" ", "-").lower()
    return publisher.page(path, words.table.format(topic=topic, edition=edition), (*head, *rows, *note), day)


class _Corrected:
    """The requested cell, and the pages about it; each takes the next number from `spare`."""

    def __init__(self, site_config: SiteConfig, topic: str, year: int, area: str, spare: Sequence[int]) -> None:
        self.found: dict[str, Found] = {}
        self._site = site_config
        self._topic, self._year, self._area = topic, year, area
        self._spare = iter(spare)

    def editions(self, table: Mapping[int, Mapping[str, int]], draws: Draws) -> list[Page]:
        """All editions of the table: the last has a footnote, the others have different numbers in the cell."""
        words, year, area = self._site.words, self._year, self._area
        pages = []
        for edition in words.editions[:2]:
            number, day = next(self._spare), draw_day(draws, 2020, 2022)
            older = {**table, year: {**table[year], area: number}}
            page = _table(self._site, self._topic, edition, older, {}, draws, changed=day)
            line = _row(self._site, year, older[year])
            self._keep(edition, number, page, line, day)
            pages.append(page)
        number, day = next(self._spare), draw_day(draws, 2023, 2023)
        note = words.note.format(amount=number)
        page = _table(self._site, self._topic, words.editions[2], table, {year: area}, draws, ("", note), day)
        self._keep("footnote", number, page, note, day)
        self._keep("table", table[year][area], page, _row(self._site, year, table[year], area), day)
        return [*pages, page]

    def sheets(self, others: Sequence[str], draws: Draws) -> list[Page]:
        """Sheets of corrections, each with one for the cell among others."""
        words, pages = self._site.words, []
        for sheet in words.sheets:
            number, day = next(self._spare), draw_day(draws, 2024, 2024)
            line = words.sheet.format(topic=self._topic, area=self._area, year=self._year, amount=number)
            lines = [line]
            for other in others:
                area, year = draws.choice(self._site.areas), draws.choice(_YEARS)
                lines.append(words.sheet.format(topic=other, area=area, year=year, amount=draws.choice(FIGURES)))
            title = words.sheet_title.format(sheet=sheet)
            path = sheet.replace(" ", "-").lower()
            page = self._site.publisher.page(path, title, draws.shuffled(lines), day)
            self._keep(sheet, number, page, line, day)
            pages.append(page)
        return pages

    def releases(self, others: Sequence[str], draws: Draws) -> list[Page]:
        """Two press releases per office, one about the cell and one about something else."""
        words, publisher, pages = self._site.words, self._site.publisher, []
        for releaser in self._site.releasers:
            for topic in (self._topic, draws.choice(others)):
                asked = topic == self._topic
                number = next(self._spare) if asked else draws.choice(FIGURES)
                area = self._area if asked else draws.choice(self._site.areas)
                day = draw_day(draws, 2020, 2024)
                line = words.release.format(topic=topic, area=area, year=self._year, amount=number, releaser=releaser)
                title = words.release_title.format(topic=topic, area=area, releaser=releaser)
                path = f"press/{releaser}/{topic}".replace(" ", "-").replace("'", "").lower()
                page = publisher.page(path, title, (line,), day)
                pages.append(page)
                if asked:
                    self._keep(releaser, number, page, line, day)
        return pages

    def _keep(self, key: str, number: int, page: Page, line: str, day: date) -> None:
        self.found[key] = Found(number, Source(page.url, line, str(number), day))


FAMILY = Errata(__file__, SELECTIONS, forms("rounded", "divided", "prefix", "also", "fragment"))
